-- Renews the leases of many locks at once: the watchdog's batch. In a cluster, all keys are of one slot.
--
-- Safe to send twice and to arrive late: it never shortens a lease, and never takes a lock that lapsed. A count of 0, of a
-- lock that was handed over, becomes 1 with a lease: its holder relies on it now, so no confirmation may shorten it.
--
-- KEYS[1..] locks (hash, string): for the i-th lock its key at 2i-1 and its "forced" key at 2i
-- ARGV[1] leaseMs (integer, ms): every lease ends no earlier than this from now; 0 only looks
-- ARGV[2..] owners (string): the owner of the i-th lock at 1+i
--
-- Returns for each lock 'kept', or how it was lost: 'taken', 'forced' or 'deleted' (also when it expired).
local locks = KEYS
local owners = ARGV
local leaseMs = ARGV[1]

local function renew(lock, forced, owner)
  -- pcall: one key of another type must not fail the whole batch.
  local count = redis.pcall('HGET', lock, owner)
  if type(count) == 'string' then
    local ttlMs = redis.call('PTTL', lock)
    if ttlMs >= 0 and ttlMs < tonumber(leaseMs) then
      redis.call('PEXPIRE', lock, leaseMs)
    end
    if count == '0' and leaseMs ~= '0' then
      redis.call('HSET', lock, owner, 1)
    end
    return 'kept'
  end
  if redis.call('GET', forced) == owner then
    redis.call('DEL', forced)
    return 'forced'
  end
  return redis.call('EXISTS', lock) == 1 and 'taken' or 'deleted'
end

local answers = {}
for i = 1, #locks / 2 do
  answers[i] = renew(locks[2 * i - 1], locks[2 * i], owners[1 + i])
end
return answers
