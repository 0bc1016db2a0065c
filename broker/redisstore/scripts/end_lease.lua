-- Revokes a lease. KEYS ended, leases, unpublished, task. ARGV id, expiry, ttl, prune
-- before, nonce. Returns first (1 for the call that revoked it), unpublished, owner.
local had = redis.call('ZSCORE', KEYS[1], ARGV[1])
if had then
  local nonce = redis.call('HGET', KEYS[3], ARGV[1])
  return {nonce == ARGV[5] and 1 or 0, nonce and 1 or 0, redis.call('HGET', KEYS[4], 'o')}
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[5])
outlive(KEYS[1], tonumber(ARGV[3]))
outlive(KEYS[3], tonumber(ARGV[3]))
prune(KEYS[1], ARGV[4])
return {1, 1, redis.call('HGET', KEYS[4], 'o')}
