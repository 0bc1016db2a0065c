-- Records a task, or adds new facts to a known one. KEYS task, leases. ARGV rank, blob,
-- sandbox, sandbox identity, due, denials, violations, closed at (0: never), keep, now,
-- ttl once closed, owner, taint... Returns rank, due, published (closed only), closed at,
-- keep.
local key = KEYS[1]
local rank = tonumber(ARGV[1])
local had = tonumber(redis.call('HGET', key, 's') or '0')
if rank >= had then
  if redis.call('HGET', key, 'b') ~= ARGV[2] then
    redis.call('HSET', key, 'b', ARGV[2])
    version(key, ARGV[2])
  end
  if ARGV[8] ~= '0' then redis.call('HSET', key, 'a', ARGV[8]) end
end
if ARGV[3] ~= '' and redis.call('HSETNX', key, 'x', ARGV[3]) == 1 then
  redis.call('HSET', key, 'xi', ARGV[4])
  version(key, ARGV[3])
end
if (redis.call('HGET', key, 'd') or '0') == '0' then redis.call('HSET', key, 'd', ARGV[5]) end
for i, f in ipairs({'n', 'i'}) do
  if tonumber(redis.call('HGET', key, f) or '0') < tonumber(ARGV[5 + i]) then redis.call('HSET', key, f, ARGV[5 + i]) end
end
redis.call('HSETNX', key, 'o', ARGV[12])
taint(key, 13)
local keep = redis.call('HGET', key, 'k')
if not keep or tonumber(keep) < tonumber(ARGV[9]) then
  keep = ARGV[9]
  redis.call('HSET', key, 'k', keep)
  if had == 3 then outlive(key, tonumber(ARGV[11])) end
end
if rank > had then
  redis.call('HSET', key, 's', rank)
  if rank == 3 then
    local at = ARGV[8]
    if at == '0' then at = ARGV[10] end
    close(key, KEYS[2], at, keep, ARGV[11])
  end
else
  rank = had
end
head(key)
local at = redis.call('HGET', key, 'a')
return {rank, redis.call('HGET', key, 'd'), redis.call('HEXISTS', key, 'p'), at or ARGV[10], keep}
