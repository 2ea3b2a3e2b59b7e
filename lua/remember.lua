-- Makes a master remember the lease that it is asked for, for many Redlocks at once: sent together with a renewal, an extension or a nested
-- acquisition. (For a new Redlock vote.lua does that.) Safe to send twice and to arrive late: the memory is only ever made longer.
--
-- KEYS[1..] longest (string): for each lock the longest lease that was asked for, in ms; there until all of them are over
-- ARGV[1] leaseMs (integer, ms): what they are asked to be kept for
-- Returns how many they are.
local longest, leaseMs, lease = KEYS, tonumber(ARGV[1]), ARGV[1] -- as it came, for commands

-- include: refusal

local function remember(key)
  local known = redis.pcall('GET', key)
  if type(known) == 'table' and not string.find(known.err, 'WRONGTYPE', 1, true) then
    return known
  end
  -- (A key of another type is no such memory, and is overwritten.)
  local knownMs = type(known) == 'string' and tonumber(known) or 0
  local ttlMs = redis.call('PTTL', key)
  -- First: a full memory refuses what takes memory only before anything is written. A key without an end gets that of the longest lease.
  if ttlMs ~= -2 and ttlMs < leaseMs then
    local isLonger = ttlMs == -1 and knownMs > leaseMs
    redis.call('PEXPIRE', key, isLonger and string.format('%.0f', math.min(knownMs, 2 ^ 52)) or lease)
  end
  local refused = knownMs < leaseMs and refusal('SET', key, lease, 'PX', lease)
  if refused and ttlMs > 0 then
    redis.call('PEXPIRE', key, string.format('%.0f', ttlMs))
  end
  return refused
end

for _, key in ipairs(longest) do
  local refused = remember(key)
  if refused then
    return refused
  end
end
return #longest
