-- A polling interval that grows. KEYS pace. ARGV now, interval, step, until, ttl,
-- nonce, most. Returns interval, ok.
local f = redis.call('HMGET', KEYS[1], 'l', 'c', 'u', 'o', 'n')
local now, cur, ok = tonumber(ARGV[1]), tonumber(ARGV[2]), 1
if f[1] and tonumber(f[3]) > now then
  if f[5] == ARGV[6] then return {tonumber(f[2]), tonumber(f[4])} end
  cur = math.max(cur, tonumber(f[2]))
  if now - tonumber(f[1]) < cur then
    ok = 0
    if f[4] == '1' then cur = math.min(cur + tonumber(ARGV[3]), tonumber(ARGV[7])) end
  end
end
redis.call('HSET', KEYS[1], 'l', ARGV[1], 'c', string.format('%.0f', cur), 'u', ARGV[4], 'o', ok, 'n', ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return {cur, ok}
