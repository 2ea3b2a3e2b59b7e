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
local leaseMs = tonumber(ARGV[1])

-- One key of another type must not fail the whole batch: there is nothing of ours. Any other error does.
local function ours(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    return not string.find(reply.err, 'WRONGTYPE', 1, true) and redis.call(...)
  end
  return reply
end

local function renew(lock, forced, owner)
  local count = ours('HGET', lock, owner)
  if count then
    local ttlMs = redis.call('PTTL', lock)
    local becomesOne = count == '0' and leaseMs > 0
    -- Before the count: a full memory refuses what takes memory only before anything is written. And even if it ends later
    -- already: WAIT asks replicas for what its own connection wrote last.
    if ttlMs >= 0 and leaseMs > 0 then
      redis.call('PEXPIRE', lock, math.max(ttlMs, leaseMs))
    end
    if becomesOne and type(redis.pcall('HSET', lock, owner, 1)) == 'table' then
      if ttlMs > 0 then
        redis.call('PEXPIRE', lock, ttlMs)
      end
      return redis.call('HSET', lock, owner, 1) -- fails again, and the batch with it
    end
    return 'kept'
  end
  if ours('GET', forced) == owner then
    -- pcall: where that is not permitted the word ends by itself.
    redis.pcall('DEL', forced)
    return 'forced'
  end
  return redis.call('EXISTS', lock) == 1 and 'taken' or 'deleted'
end

local answers = {}
for i = 1, #locks / 2 do
  answers[i] = renew(locks[2 * i - 1], locks[2 * i], owners[1 + i])
end
return answers
