-- Starts a new epoch, unless this process's counter was lost since it last looked.
-- KEYS canary. ARGV field, last counter, least epoch. Returns epoch (0: lost),
-- counter. Counters of other processes start again with the epoch.
local c = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
if c <= tonumber(ARGV[2]) then return {0, c} end
local e = math.max(tonumber(redis.call('HGET', KEYS[1], 'e') or '0') + 1, tonumber(ARGV[3]))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'e', string.format('%.0f', e), ARGV[1], c)
return {e, c}
