-- Records a lease. KEYS task, leases, ended; when they are on one node also held, counts
-- of the owner. ARGV id, expiry, limit, refill, now, ttl, prune before; task, limit of
-- the owner. Returns 0, or -1 unknown task, -2 closed, -3 paused, -4 revoked before, -5
-- limit of the task reached, -6 limit of the owner reached.
local state = redis.call('HGET', KEYS[1], 's')
if not state then return -1 end
if state == '3' then return -2 end
if state == '2' and ARGV[4] == '0' then return -3 end
if redis.call('ZSCORE', KEYS[3], ARGV[1]) then return -4 end
local held, limit = redis.call('ZCARD', KEYS[2]), tonumber(ARGV[3])
-- Expired leases are counted separately only when the limit may be reached.
if limit > 0 and held >= limit and not redis.call('ZSCORE', KEYS[2], ARGV[1])
  and redis.call('ZCOUNT', KEYS[2], '(' .. ARGV[5], '+inf') >= limit then return -5 end
if KEYS[4] and take(KEYS[4], KEYS[5], ARGV[8], ARGV[1], ARGV[2], tonumber(ARGV[9]), ARGV[5], tonumber(ARGV[6])) < 0 then return -6 end
redis.call('ZADD', KEYS[2], 'NX', ARGV[2], ARGV[1])
outlive(KEYS[2], tonumber(ARGV[6]))
-- As often as the number of leases grows by 8.
if held % 8 == 7 then prune(KEYS[2], ARGV[7]) end
return 0
