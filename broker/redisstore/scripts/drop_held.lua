-- Frees places of an owner. KEYS held, counts. ARGV task, lease; lease '' frees all
-- places of a closed task, whose members are removed when they expire.
if ARGV[2] == '' then
  release(KEYS[2], ARGV[1], math.huge)
elseif redis.call('ZREM', KEYS[1], ARGV[1] .. '|' .. ARGV[2]) == 1 then
  release(KEYS[2], ARGV[1], 1)
end
return 0
