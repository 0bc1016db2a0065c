-- Starts a new epoch, unless this process's counter was lost since it last looked.
-- KEYS canary. ARGV field, last counter, least epoch, whether something was lost.
-- Returns epoch (0: lost), counter. After a loss the counters of other processes
-- start again with the epoch: that is how they hear of it. So do they when too many
-- processes came and went.
local c = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
if c <= tonumber(ARGV[2]) then return {0, c} end
local e = math.max(tonumber(redis.call('HGET', KEYS[1], 'e') or '0') + 1, tonumber(ARGV[3]))
if ARGV[4] == '1' or redis.call('HLEN', KEYS[1]) > 1024 then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'e', string.format('%.0f', e), ARGV[1], c)
return {e, c}
