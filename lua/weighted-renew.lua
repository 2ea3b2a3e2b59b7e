-- Renews the leases of holders of weighted locks, many at once: the watchdog's batch. In a cluster, all keys are of one slot.
-- Safe to send twice and to arrive late: it never shortens a lease, and never renews one that lapsed, or that its owner has released. With a
-- lease it takes the "?" from the weight: its holder relies on it now, so no confirmation may shorten it. So it does with a ">", whose export
-- did not come about.
--
-- KEYS[1..] keys (hash, sorted set, hash): for the i-th holder its lock at 3i-2, the leases of that at 3i-1, who was forced out at 3i
-- ARGV[1] leaseMs (integer, ms): every lease ends no earlier than this from now; 0 only looks
-- ARGV[2..] owners (string): the i-th holder at 1+i
-- Returns for each 'kept', or how it was lost: 'forced', or 'deleted' (also when it lapsed).
local keys, owners, leaseMs = KEYS, ARGV, tonumber(ARGV[1])

-- include: now, ours, ttl-of
local leaseEndMs = nowMs + leaseMs

-- Whose keys live long enough: a client has many holders of one lock.
local isLasting = {}

local function prolong(lock, leases, owner, weight, endsAtMs)
  if not isLasting[lock] then
    -- First: a full memory refuses what takes memory only before anything is written. And even if they end later already: WAIT asks
    -- replicas for what its own connection wrote last. (Keys that live longer than their last lease harm nobody.)
    local lastEndMs = string.format('%.0f', math.max(leaseEndMs, nowMs + ttlOf(lock, leases)))
    redis.call('PEXPIREAT', leases, lastEndMs)
    redis.call('PEXPIREAT', lock, lastEndMs)
    isLasting[lock] = true
  end
  redis.call('ZADD', leases, string.format('%.0f', math.max(endsAtMs, leaseEndMs)), owner)
  local confirmed = string.match(weight, '^%d+~?(.*)$') ~= '' and redis.pcall('HSET', lock, owner, string.match(weight, '^%d+~?'))
  if type(confirmed) == 'table' then
    redis.call('ZADD', leases, string.format('%.0f', endsAtMs), owner)
    return confirmed
  end
end

local function renew(lock, leases, owner)
  local weight = ours('HGET', lock, owner)
  local endsAtMs = weight and tonumber(ours('ZSCORE', leases, owner))
  if not endsAtMs or endsAtMs <= nowMs or string.find(weight, '.', 1, true) then
    return 'deleted'
  end
  return leaseMs > 0 and prolong(lock, leases, owner, weight, endsAtMs) or 'kept'
end

local answers = {}
for i = 1, #keys / 3 do
  answers[i] = renew(keys[3 * i - 2], keys[3 * i - 1], owners[1 + i])
  if answers[i].err then
    return answers[i]
  end
end
-- The word for who was forced out is for that owner alone. (pcall: that it is gone is known, whatever becomes of the word.)
for i, answer in ipairs(answers) do
  if answer == 'deleted' and redis.pcall('HDEL', keys[3 * i], owners[1 + i]) == 1 then
    answers[i] = 'forced'
  end
end
return answers
