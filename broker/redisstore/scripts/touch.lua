-- Changes the running facts of a task. KEYS task. ARGV due (0: unchanged), denials,
-- violations, sandbox, sandbox identity, taint... Returns the head, or -1 unknown task,
-- -2 closed, -3 another sandbox.
local key = KEYS[1]
local had = redis.call('HGET', key, 's')
if not had then return -1 end
if had == '3' then return -2 end
if ARGV[4] ~= '' then
  if redis.call('HSETNX', key, 'x', ARGV[4]) == 1 then
    redis.call('HSET', key, 'xi', ARGV[5])
    version(key, ARGV[4])
  elseif redis.call('HGET', key, 'xi') ~= ARGV[5] then
    return -3
  end
end
if ARGV[1] ~= '0' then redis.call('HSET', key, 'd', ARGV[1]) end
if ARGV[2] ~= '0' then redis.call('HINCRBY', key, 'n', ARGV[2]) end
if ARGV[3] ~= '0' then redis.call('HINCRBY', key, 'i', ARGV[3]) end
taint(key, 6)
return head(key)
