-- Acquires and releases many locks in one call: each as acquire.lua, acquire-fenced.lua or release.lua would, in the order in which they
-- stand here. In a cluster, all keys are of one slot.
--
-- Each is answered for itself. What its own script would refuse (a command or key that is denied, a key of another
-- type, a full memory, a key that is not here any more) is left undone and answered by false, whatever becomes of the
-- others: sent by itself, it is told why. Nothing in this script raises an error; so an error that answers the whole call means that
-- nothing was done.
--
-- Safe to send twice and to arrive late, since each of them is. (A full memory refuses nothing once something was written: what
-- comes behind a release is acquired all the same.)
--
-- KEYS[1..] keys (hash, string): the locks (owner -> hold count), the same one perhaps more than once; behind one that is acquired with
-- a fencing token its counter (the last one that was given out)
-- ARGV[1] kinds (string): a letter for each lock: a to acquire it, o to acquire it with a lease of its own, f to do that with a
-- fencing token, r to release it, w to release it and tell nobody
-- ARGV[2] leaseMs (integer, ms): how long a lock is kept without a renewal
-- ARGV[3] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub
-- ARGV[4..] owners (string): for each lock "<clientId>:<n>"; behind it its own lease (integer, ms), if it has one, and then how long its
-- token is remembered (integer, ms; 0: for ever), if it is given one
--
-- Returns for each lock what its own script returns; false (null to a client) where nothing was done.
local keys = KEYS
local kinds = ARGV[1]
local leaseMs = ARGV[2]
local publish = ARGV[3]
local owners = ARGV

local ACQUIRE, ACQUIRE_FOR, ACQUIRE_FENCED, RELEASE = string.byte('aofr', 1, 4)

-- The next fencing token, and for how long it is to be remembered, in ms (nil: for ever); or nil, and why there is none: {err}.
-- Larger than the last one, and no smaller than the time in microseconds: so tokens grow, too, when the last one was
-- forgotten. It is remembered for `tokenTtlMs` (0: for ever), and longer by what it is ahead of the clock, which may have been set
-- back; never for less than now.
local function nextToken(counter, tokenTtlMs)
  local last = redis.call('GET', counter) or '0'
  local time = redis.call('TIME')
  local nowUs = time[1] * 1000000 + time[2]
  local lastNumber = string.match(last, '^%d+$') and tonumber(last) or 2 ^ 53
  local number = math.max(lastNumber + 1, nowUs)
  -- Lua counts exactly up to 2^53. What comes within 2^40 of that comes from no clock before the year 2255.
  if nowUs > 2 ^ 53 - 2 ^ 40 then
    return nil, redis.error_reply('ERR there are no fencing tokens any more: the clock of the server is past the year 2255')
  elseif number > 2 ^ 53 - 2 ^ 40 then
    return nil, redis.error_reply('KEYCONFLICT the key of the last fencing token holds something else')
  end
  local ttlMs = tokenTtlMs > 0 and redis.call('PTTL', counter) or -1
  local rememberMs = ttlMs ~= -1 and math.max(ttlMs, tokenTtlMs + math.ceil((number - nowUs) / 1000)) or nil
  return string.format('%.0f', number), rememberMs
end

local function setToken(counter, token, rememberMs)
  if rememberMs then
    return redis.pcall('SET', counter, token, 'PX', string.format('%.0f', rememberMs))
  end
  return redis.pcall('SET', counter, token)
end

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
    return longerMs and redis.pcall('PEXPIRE', lock, string.format('%.0f', longerMs)) == 1 and 1
  end
  return isOurs == 0 and heldBy(lock)
end

-- (One that is its owner's already is seldom, and left to its own script.)
local function acquireFenced(lock, counter, owner, lease, tokenTtlMs)
  local exists = redis.pcall('EXISTS', lock)
  if exists ~= 0 then
    return exists == 1 and redis.pcall('HEXISTS', lock, owner) == 0 and heldBy(lock)
  end
  local isKnown, token, rememberMs = pcall(nextToken, counter, tokenTtlMs)
  if not isKnown or not token or redis.pcall('HSET', lock, owner, 1) ~= 1 then
    return false
  end
  if redis.pcall('PEXPIRE', lock, lease) ~= 1 or setToken(counter, token, rememberMs).err then
    redis.pcall('HDEL', lock, owner)
    return false
  end
  return token
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
local key = 0
local at = 3
for i = 1, #kinds do
  local kind = string.byte(kinds, i)
  key = key + 1
  at = at + 1
  local lock = keys[key]
  local owner = owners[at]
  if kind == ACQUIRE then
    answers[i] = acquire(lock, owner, leaseMs)
  elseif kind == ACQUIRE_FOR then
    at = at + 1
    answers[i] = acquire(lock, owner, owners[at])
  elseif kind == ACQUIRE_FENCED then
    key = key + 1
    at = at + 2
    answers[i] = acquireFenced(lock, keys[key], owner, owners[at - 1], tonumber(owners[at]))
  else
    answers[i] = release(lock, owner, kind == RELEASE)
  end
end
return answers
