-- Takes a place of an owner for a lease. KEYS held, counts. ARGV task, lease, expiry,
-- limit, now, ttl. Returns the result of take().
return take(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]))
