-- Takes a one-time value. KEYS value. ARGV now, nonce. What was taken stays a
-- moment under the taker's nonce, for a repeated transmission of the same call.
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
