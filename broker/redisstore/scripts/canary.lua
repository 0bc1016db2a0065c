-- Raises this process's counter. KEYS canary. ARGV field. Returns epoch (0: never
-- marked, or lost), counter.
local c = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
return {tonumber(redis.call('HGET', KEYS[1], 'e') or '0'), c}
