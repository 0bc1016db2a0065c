-- Raises the counter of this process in a loss marker. KEYS loss marker. ARGV field. Returns
-- epoch (0: never marked, or lost), counter, name of the memory.
local c = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
return {tonumber(redis.call('HGET', KEYS[1], 'e') or '0'), c, redis.call('HGET', KEYS[1], 'm') or ''}
