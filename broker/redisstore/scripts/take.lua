-- Takes a one-time value. KEYS value. ARGV now, nonce. A taken value stays for 5 s under
-- the nonce of its taker, so that a call that is sent twice gets the same answer twice.
local v = redis.call('GET', KEYS[1])
if not v then return false end
local nonce, rest = string.match(v, '^!([^|]*)|(.*)$')
if nonce then
  if nonce ~= ARGV[2] then return false end
  return rest
end
local till, text = string.match(v, '^(-?%d+)|(.*)$')
if tonumber(till) <= tonumber(ARGV[1]) then return false end
redis.call('SET', KEYS[1], '!' .. ARGV[2] .. '|' .. text, 'PX', 5000)
return text
