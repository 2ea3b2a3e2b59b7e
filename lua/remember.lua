-- Has a master remember for how long it is asked to keep Redlocks that are renewed, extended or nested, many at once; for
-- new ones vote.lua does. It is sent right before what asks for that.
--
-- Safe to send twice and to arrive late: the memory is only ever made longer.
--
-- KEYS[1..] longest (string): for each lock the longest lease that was asked for, in ms; there until all of them are over
-- ARGV[1] leaseMs (integer, ms): what they are asked to be kept for
--
-- Returns how many they are.
local longest = KEYS
local leaseMs = ARGV[1]

for _, key in ipairs(longest) do
  -- pcall: whatever else a key may hold is written over.
  if (tonumber(redis.pcall('GET', key)) or 0) <= tonumber(leaseMs) then
    redis.call('SET', key, leaseMs, 'PX', leaseMs)
  elseif redis.call('PTTL', key) < tonumber(leaseMs) then
    redis.call('PEXPIRE', key, leaseMs)
  end
end
return #longest
