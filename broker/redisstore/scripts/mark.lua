-- Starts a new epoch, unless the counter of this process was lost since its last read.
-- KEYS loss marker. ARGV field, last counter, least epoch, whether data was lost, a random
-- name. Returns epoch (0: lost), counter, name of the memory. After a loss the counters
-- of other processes restart in the new epoch, which tells those processes of the loss.
-- They also restart when the marker has more than 1024 fields, because too many processes
-- came and went. In both cases the memory gets a new name.
local c = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
if c <= tonumber(ARGV[2]) then return {0, c, ''} end
local e = math.max(tonumber(redis.call('HGET', KEYS[1], 'e') or '0') + 1, tonumber(ARGV[3]))
if ARGV[4] == '1' or redis.call('HLEN', KEYS[1]) > 1024 then redis.call('DEL', KEYS[1]) end
local m = redis.call('HGET', KEYS[1], 'm') or ARGV[5]
redis.call('HSET', KEYS[1], 'e', string.format('%.0f', e), ARGV[1], c, 'm', m)
return {e, c, m}
