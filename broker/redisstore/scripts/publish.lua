-- Adds an event to the feed and removes a few expired ones. KEYS feed. ARGV task, lease,
-- at, until, ttl. An event lives ttl milliseconds by this server's clock, independent of
-- the brokers' clocks. The newest event always stays: otherwise a reader could not tell
-- an empty feed from a lost one.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('XADD', KEYS[1], '*', 't', ARGV[1], 'l', ARGV[2], 'a', ARGV[3], 'u', ARGV[4], 'x', string.format('%.0f', now + ARGV[5]))
local old = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 17)
local first
for i, e in ipairs(old) do
  if i > 1 then first = e[1] end
  if tonumber(e[2][10]) > now or i == #old then
    first = e[1]
    break
  end
end
if first and first ~= old[1][1] then redis.call('XTRIM', KEYS[1], 'MINID', first) end
return 0
