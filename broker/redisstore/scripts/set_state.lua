-- Moves a task. KEYS task, leases. ARGV rank, at, keep, ttl once closed, nonce. Returns
-- result (-1 unknown, -2 closed, 0 closed before, 1 moved), live, expired, published,
-- closed at, keep, owner. With the nonce, a call that is sent twice gets the same answer
-- twice.
local key = KEYS[1]
local had = redis.call('HGET', key, 's')
local closing = ARGV[1] == '3'
if not had and not closing then return {-1} end
if had == '3' then
  if not closing then return {-2} end
  local f = redis.call('HMGET', key, 'cl', 'ce', 'p', 'a', 'k', 'cn', 'o')
  local keep = f[5] or '0'
  if tonumber(keep) < tonumber(ARGV[3]) then
    keep = ARGV[3]
    redis.call('HSET', key, 'k', keep)
    outlive(key, tonumber(ARGV[4]))
  end
  local first = 0
  if f[6] == ARGV[5] then first = 1 end
  return {first, tonumber(f[1]), tonumber(f[2]), f[3] and 1 or 0, f[4] or ARGV[2], keep, f[7]}
end
if not closing then
  redis.call('HSET', key, 's', ARGV[1])
  head(key)
  local live, expired = counts(KEYS[2], ARGV[2])
  return {1, live, expired, 1, '0', '0'}
end
local keep = redis.call('HGET', key, 'k')
if not keep or tonumber(keep) < tonumber(ARGV[3]) then keep = ARGV[3] end
local live, expired = close(key, KEYS[2], ARGV[2], keep, ARGV[4])
redis.call('HSET', key, 'a', ARGV[2], 'cn', ARGV[5])
head(key)
return {1, live, expired, 0, ARGV[2], keep, redis.call('HGET', key, 'o')}
