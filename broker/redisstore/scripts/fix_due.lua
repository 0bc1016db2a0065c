-- Moves or removes an entry of the index, unless another process moved it in the
-- meantime. KEYS due. ARGV id, expected score, new score or '' to remove.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
if ARGV[3] == '' then return redis.call('ZREM', KEYS[1], ARGV[1]) end
redis.call('ZADD', KEYS[1], 'XX', ARGV[3], ARGV[1])
return 1
