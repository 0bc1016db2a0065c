-- Functions for all scripts. A state is stored as its rank: 1 open, 2 paused, 3 closed.

-- head writes the frequently changing facts of a task into one field, so that reading
-- them is one HGET: state, due, denials, violations, closed at, version.
local function head(key)
  local f = redis.call('HMGET', key, 's', 'd', 'n', 'i', 'a', 'v')
  local h = f[1] .. ' ' .. (f[2] or '0') .. ' ' .. (f[3] or '0') .. ' ' .. (f[4] or '0') .. ' ' .. (f[5] or '0') .. ' ' .. (f[6] or '-')
  redis.call('HSET', key, 'h', h)
  return h
end

-- version sets the version of the rarely changing facts (blob, sandbox, taint): a hash
-- over the history of their changes.
local function version(key, change)
  redis.call('HSET', key, 'v', redis.sha1hex((redis.call('HGET', key, 'v') or '') .. '\0' .. change))
end

-- taint adds sources, as broker.AddTaint does. Field c counts the named ones.
local function taint(key, from)
  for i = from, #ARGV do
    local f = 't:' .. ARGV[i]
    if f ~= 't:+more' and redis.call('HEXISTS', key, f) == 0 then
      if tonumber(redis.call('HGET', key, 'c') or '0') < 64 then
        redis.call('HINCRBY', key, 'c', 1)
      else
        f = 't:+more'
      end
    end
    if redis.call('HSETNX', key, f, '') == 1 then version(key, f) end
  end
end

-- outlive extends the ttl of key to at least ttl milliseconds.
local function outlive(key, ttl)
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
end

-- prune removes up to 16 members that ended before score.
local function prune(key, score)
  local old = redis.call('ZRANGEBYSCORE', key, '-inf', score, 'LIMIT', 0, 16)
  if #old > 0 then redis.call('ZREM', key, unpack(old)) end
end

local function counts(leases, at)
  local live = redis.call('ZCOUNT', leases, '(' .. at, '+inf')
  return live, redis.call('ZCARD', leases) - live
end

-- close makes a task final. Its leases are removed with the key that holds them: UNLINK
-- takes O(1) here and frees the memory in the background.
local function close(task, leases, at, keep, ttl)
  local live, expired = counts(leases, at)
  redis.call('UNLINK', leases)
  redis.call('HSET', task, 's', '3', 'k', keep, 'cl', live, 'ce', expired)
  redis.call('PEXPIRE', task, ttl)
  return live, expired
end
