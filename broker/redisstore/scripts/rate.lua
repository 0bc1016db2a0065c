-- GCRA. KEYS rate. ARGV now, step, burst in microseconds, ttl of a full bucket in
-- milliseconds. Returns 0, or by how many microseconds the event came too early.
local now, step, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1]) or '0')
if tat < now then tat = now end
if tat > now + burst then -- the clock was set back: that costs one burst, no more
  tat = now + burst
  redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', ARGV[4])
end
local over = tat + step - now - burst
if over > 0 then return over end
redis.call('SET', KEYS[1], string.format('%.0f', tat + step), 'PX', ARGV[4])
return 0
