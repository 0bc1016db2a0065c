-- The leases of all tasks of one owner. Key held has each lease by expiry. Key counts has
-- the number of leases of each task that is not closed, and in # their sum.

-- release frees n places of a task, or as many as it has, and returns how many the owner
-- then holds; false if the task has none. At a sum of 0 the key counts is removed, so
-- that it never outlives its leases.
local function release(counts, task, n)
  local has = tonumber(redis.call('HGET', counts, task) or '0')
  if has == 0 then return false end
  if has <= n then
    n = has
    redis.call('HDEL', counts, task)
  else
    redis.call('HINCRBY', counts, task, -n)
  end
  local sum = redis.call('HINCRBY', counts, '#', -n)
  if sum <= 0 then redis.call('DEL', counts) end
  return sum
end

-- forget frees places of expired leases, and returns whether there may be more.
local function forget(held, counts, now)
  local old = redis.call('ZRANGEBYSCORE', held, '-inf', now, 'LIMIT', 0, 16)
  for _, m in ipairs(old) do
    redis.call('ZREM', held, m)
    release(counts, string.match(m, '^[^|]*'), 1)
  end
  return #old == 16
end

-- take takes a place for a lease (limit 0: no limit). It returns 1, or 0 if the lease has
-- a place or has expired, or -1 if every place is taken.
local function take(held, counts, task, lease, expiry, limit, now, ttl)
  if tonumber(expiry) <= tonumber(now) then return 0 end
  local member = task .. '|' .. lease
  local function full() return tonumber(redis.call('HGET', counts, '#') or '0') >= limit end
  if limit > 0 and full() then
    if redis.call('ZSCORE', held, member) then return 0 end
    -- Members of closed tasks come first and free no place: they are removed, a limited
    -- number at a time.
    for _ = 1, 64 do
      if not forget(held, counts, now) or not full() then break end
    end
    if full() then return -1 end
  elseif string.byte(lease, -1) % 8 == 0 then
    forget(held, counts, now) -- for one lease in 8: ids are random
  end
  if redis.call('ZADD', held, 'NX', expiry, member) == 0 then return 0 end
  redis.call('HINCRBY', counts, task, 1)
  redis.call('HINCRBY', counts, '#', 1)
  -- Extend both keys at once, and longer than needed, so that few calls have to do it.
  if redis.call('PTTL', counts) < ttl then
    redis.call('PEXPIRE', counts, ttl + 600000)
    outlive(held, ttl + 600000)
  end
  return 1
end
