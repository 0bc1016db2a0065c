-- Makes claims, counts rates, reads a task. KEYS claims, rates, task. ARGV now in
-- milliseconds, number of claims, number of rates; for each claim its text
-- ("until|nonce|value") and ttl; for each rate its step and burst in microseconds and the
-- ttl of a full bucket in milliseconds. Returns for each claim the earlier claim if it is
-- still valid, else false; for each rate 0, or by how many microseconds the event came
-- too early; the task's head.
local now, claims, rates = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local out, a = {}, 4
for i = 1, claims do
  local had = redis.call('SET', KEYS[i], ARGV[a], 'NX', 'GET', 'PX', ARGV[a + 1])
  if had and tonumber(string.match(had, '^%d+')) <= now then
    -- it has ended by the caller's clock, but perhaps not by this server's
    redis.call('SET', KEYS[i], ARGV[a], 'PX', ARGV[a + 1])
    had = false
  end
  out[i] = had
  a = a + 2
end
local us = now * 1000
for i = claims + 1, claims + rates do -- GCRA
  local step, burst = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
  local had = tonumber(redis.call('GET', KEYS[i]) or '0')
  -- if the clock was set back, at most one burst is lost
  local tat = math.min(math.max(had, us), us + burst)
  local over = tat + step - us - burst
  if over <= 0 then
    over = 0
    tat = tat + step
  end
  if tat ~= had then redis.call('SET', KEYS[i], string.format('%.0f', tat), 'PX', ARGV[a + 2]) end
  out[i] = over
  a = a + 3
end
if #KEYS > claims + rates then out[#KEYS] = redis.call('HGET', KEYS[#KEYS], 'h') end
return out
