-- Moves or drops an entry of the index, unless somebody else moved it meanwhile.
-- KEYS due. ARGV id, score it must have, new score or '' to drop.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
if ARGV[3] == '' then return redis.call('ZREM', KEYS[1], ARGV[1]) end
redis.call('ZADD', KEYS[1], 'XX', ARGV[3], ARGV[1])
return 1
