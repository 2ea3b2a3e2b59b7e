-- Sets the hold count of a lock that its owner must still hold, and makes the lease end no earlier than a given time from now. Serves
-- nested acquisitions and releases (which set no lease), extensions, and the question how a lock was lost. Safe to send twice and to arrive
-- late: the count is a target, no difference; a lease is never shortened, and a lock that lapsed, or that its owner has released, never taken.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] forced (string): the last owner that was forced out
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] holdCount (integer): the count to set, at least 1; -3: its client has no hold any more, and another process may adopt the owner
-- ARGV[3] leaseMs (integer, ms): the lease ends no earlier than this from now; 0 leaves it
-- Returns 'kept', or how the lock was lost: 'taken', 'forced' or 'deleted' (also when it expired).
local lock, forced = unpack(KEYS)
local owner, holdCount, leaseMs = ARGV[1], ARGV[2], tonumber(ARGV[3])

local count = redis.call('HGET', lock, owner)
if not count or count == '-2' then
  -- include: ours, how-lost
end
-- A leading zero stays: the number of a lock that was handed over says when its caller joined the line. That of a kept one says when its client
-- got it, not since when somebody is inside.
if (string.match(count, '^0') or count == '-1') and holdCount ~= '-3' then
  holdCount = '0' .. holdCount
end

local ttlMs = redis.call('PTTL', lock)
local newTtlMs = math.max(ttlMs, leaseMs)
-- Also if the lease stays, and first: a full memory refuses what takes memory only before anything is written.
if newTtlMs > 0 then
  redis.call('PEXPIRE', lock, string.format('%.0f', newTtlMs))
end
if count ~= holdCount then
  local counted = redis.pcall('HSET', lock, owner, holdCount)
  if type(counted) == 'table' then
    -- include: undo-lease
    return counted
  end
end
return 'kept'
