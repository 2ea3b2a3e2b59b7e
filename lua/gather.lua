-- Acquires and releases many locks in one call: each as acquire.lua or release.lua would, in the order in which they stand
-- here. In a cluster, all keys are of one slot.
--
-- Each is answered for itself. What acquire.lua or release.lua would refuse (a command or key that is denied, a key of another
-- type, a full memory, a key that is not here any more) is left undone and answered by false, whatever becomes of the
-- others: sent by itself, it is told why. No command of this script raises an error; so an error that answers the whole call means that
-- nothing was done.
--
-- Safe to send twice and to arrive late, since each of them is. (A full memory refuses nothing once something was written: what
-- comes behind a release is acquired all the same.)
--
-- KEYS[1..] locks (hash): owner -> hold count; the same lock may be there more than once
-- ARGV[1] kinds (string): a letter for each lock: a to acquire it, o to acquire it with a lease of its own, r to release it,
-- w to release it and tell nobody
-- ARGV[2] leaseMs (integer, ms): how long a lock is kept without a renewal
-- ARGV[3] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub
-- ARGV[4..] owners (string): for each lock "<clientId>:<n>"; behind it its own lease (integer, ms), if it has one
--
-- Returns for each lock what acquire.lua or release.lua returns; false (null to a client) where nothing was done.
local locks = KEYS
local kinds = ARGV[1]
local leaseMs = ARGV[2]
local publish = ARGV[3]
local owners = ARGV

local ACQUIRE, ACQUIRE_FOR, RELEASE = string.byte('aor', 1, 3)

-- A lock has one owner, as in acquire.lua. Anything else is none of ours, and acquire.lua says what it is.
local function heldBy(lock)
  local holders = redis.pcall('HLEN', lock) == 1 and redis.pcall('HKEYS', lock) or {}
  local ttlMs = redis.pcall('PTTL', lock)
  if #holders ~= 1 or type(ttlMs) ~= 'number' or not string.match(holders[1], '^.+:%-?%d+$') then
    return false
  end
  return { holders[1], ttlMs }
end

local function acquire(lock, owner, lease)
  local exists = redis.pcall('EXISTS', lock)
  if exists == 0 then
    if redis.pcall('HSET', lock, owner, 1) ~= 1 then
      return false
    end
    if redis.pcall('PEXPIRE', lock, lease) ~= 1 then
      redis.pcall('HDEL', lock, owner)
      return false
    end
    return 1
  end
  local isOurs = exists == 1 and redis.pcall('HEXISTS', lock, owner)
  if isOurs == 1 then
    local ttlMs = redis.pcall('PTTL', lock)
    local longerMs = type(ttlMs) == 'number' and math.max(ttlMs, tonumber(lease))
    return longerMs and redis.pcall('PEXPIRE', lock, longerMs) == 1 and 1
  end
  return isOurs == 0 and heldBy(lock)
end

local function release(lock, owner, isTold)
  local removed = redis.pcall('HDEL', lock, owner)
  if removed ~= 1 or not isTold then
    return type(removed) == 'number' and removed
  end
  -- The name of the channel is Redisson's, as in src/redis/keys.ts: it need not be sent for each of many locks.
  local tag = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  local told = redis.pcall(publish, 'redisson_lock__channel:' .. tag, '0')
  return type(told) == 'table' and told.err or 1 + told
end

local answers = {}
local at = 3
for i = 1, #locks do
  local kind = string.byte(kinds, i)
  at = at + 1
  local owner = owners[at]
  if kind == ACQUIRE then
    answers[i] = acquire(locks[i], owner, leaseMs)
  elseif kind == ACQUIRE_FOR then
    at = at + 1
    answers[i] = acquire(locks[i], owner, owners[at])
  else
    answers[i] = release(locks[i], owner, kind == RELEASE)
  end
end
return answers
