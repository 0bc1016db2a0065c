-- Replaces a claim that has ended by the caller's clock but not yet by this
-- server's. KEYS claim. ARGV now, value as stored, ttl. Returns what was there
-- and still counts, else false.
local had = redis.call('GET', KEYS[1])
if had and tonumber(string.match(had, '^%d+')) > tonumber(ARGV[1]) then return had end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return false
