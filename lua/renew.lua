-- Renews the leases of many locks at once: the watchdog's batch. In a cluster, all keys are of one slot.
-- Safe to send twice and to arrive late: it never shortens a lease, and never takes a lock that lapsed, or that its owner has released. A
-- count of 0, of a lock that was handed over, becomes 01 with a lease: its holder relies on it now, so no confirmation may shorten it. So does
-- -3, whose export did not come about.
--
-- KEYS[1..] locks (hash, string): for the i-th lock its key at 2i-1 and its "forced" key at 2i
-- ARGV[1] leaseMs (integer, ms): every lease ends no earlier than this from now; 0 only looks
-- ARGV[2..] owners (string): the owner of the i-th lock at 1+i
-- Returns 'kept' if all are; else for each lock 'kept', or how it was lost: 'taken', 'forced' or 'deleted' (also when it expired).
local locks, owners = KEYS, ARGV
local leaseMs, lease = tonumber(ARGV[1]), ARGV[1] -- as it came: a number would be written out anew for each command

-- include: ours

-- For what GT cannot do: the lease ends later already, the lock has no expiry, or its count becomes 01; and for all locks on a
-- server without GT.
local function prolong(lock, owner, count)
  local ttlMs = redis.call('PTTL', lock)
  -- Before the count: a full memory refuses what takes memory only before anything is written. And even if it ends later
  -- already: WAIT asks replicas for what its own connection wrote last.
  redis.call('PEXPIRE', lock, ttlMs > leaseMs and string.format('%.0f', ttlMs) or lease)
  if (count == '0' or count == '-3') and type(redis.pcall('HSET', lock, owner, '01')) == 'table' then
    -- include: undo-lease
    redis.call('HSET', lock, owner, '01') -- fails again, and the batch with it
  end
end

-- PEXPIRE with GT (Redis 7 or newer) needs no PTTL, since it never shortens a lease. A server that does not know it refuses it
-- once for each batch, before it has done anything.
local isGtKnown = true

local function renew(lock, forced, owner)
  local count = ours('HGET', lock, owner)
  if not count or count == '-2' then
    -- include: how-lost
  end
  if leaseMs > 0 then
    local prolonged = count ~= '0' and count ~= '-3' and isGtKnown and redis.pcall('PEXPIRE', lock, lease, 'GT')
    if prolonged ~= 1 then
      isGtKnown = isGtKnown and type(prolonged) ~= 'table'
      prolong(lock, owner, count)
    end
  end
  return 'kept'
end

local answers = {}
local areAllKept = true
for i = 1, #locks / 2 do
  local answer = renew(locks[2 * i - 1], locks[2 * i], owners[1 + i])
  answers[i] = answer
  areAllKept = areAllKept and answer == 'kept'
end
return areAllKept and 'kept' or answers
