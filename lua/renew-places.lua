-- Renews places in line for fair locks, many at once: the watchdog's batch. In a cluster, all keys are of one slot.
-- Safe to send twice and to arrive late: it makes no place anew, and an older nonce changes nothing. A lock that was handed over to one of
-- the owners, who may not have heard of it, is kept for as long as its place would have been.
--
-- KEYS[1..] keys (hash, sorted set, hash): for the i-th place its lock at 3i-2, its line at 3i-1, its places at 3i
-- ARGV[1] placeLeaseMs (integer, ms): how long each place is kept without a further renewal
-- ARGV[2] nonce (integer): of this command, higher than that of any earlier one of this client
-- ARGV[3..] owners (string, 0 or 1): for the i-th place its owner at 2i+1, and whether its client listens at 2i+2
-- Returns for each place 'yours' (the lock was handed over), 'gone', or the time to live of the lock (integer, ms; -1: no expiry, -2: the
-- lock is free).
local keys, owners, nonce = KEYS, ARGV, ARGV[2]
local placeLeaseMs, placeLease = tonumber(ARGV[1]), ARGV[1] -- as it came: a number would be written out anew for each command

-- include: ours

-- include: now
local expiresAtMs = string.format('%.0f', nowMs + placeLeaseMs)

-- Whether anything was written: before, a full memory refuses what takes memory, and a place may just have its lease.
local hasWritten = false

-- PEXPIRE with GT (Redis 7 or newer) needs no PTTL, since it never shortens a lease. A server that does not know it refuses it
-- once for each batch, before it has done anything.
local isGtKnown = true

local function atLeast(key)
  local prolonged = isGtKnown and redis.pcall('PEXPIRE', key, placeLease, 'GT')
  if prolonged == 1 then
    hasWritten = true
    return
  end
  isGtKnown = isGtKnown and type(prolonged) ~= 'table'
  local ttlMs = redis.call('PTTL', key)
  if ttlMs ~= -2 and (ttlMs < placeLeaseMs or not hasWritten) then
    redis.call('PEXPIRE', key, ttlMs > placeLeaseMs and string.format('%.0f', ttlMs) or placeLease)
    hasWritten = true
  end
end

-- Asks the client that may keep the lock without using it to let go: an earlier wish may have been lost.
local function wish(lock, owner)
  local fields = redis.call('HLEN', lock) == 1 and redis.call('HGETALL', lock)
  -- include: holder, wish
end

-- Whose keys were prolonged in this call, by lock, and how long each lock lives: a client has many places in one line.
local ttlsOfLocks = {}

local function renew(lock, line, places, owner, isListening)
  local isHolder = ours('HEXISTS', lock, owner)
  if isHolder == 1 and redis.call('HGET', lock, owner) == '-2' then
    return 'gone' -- it has had the lock, which stays taken for a while
  elseif isHolder == 1 then
    atLeast(lock)
    ttlsOfLocks[lock] = nil
    return 'yours'
  end
  local place = isHolder == 0 and ours('HGET', places, owner)
  if not place or not ours('ZSCORE', line, owner) then
    return 'gone'
  end
  local known, wants, remainder = string.match(place, '^(%d+) %d+ (%d) %d (.*)$')
  local ttlMs = ttlsOfLocks[lock]
  if not ttlMs then
    atLeast(line)
    atLeast(places)
    ttlMs = redis.call('PTTL', lock)
    ttlsOfLocks[lock] = ttlMs
    wish(lock, owner)
  end
  if tonumber(known) <= tonumber(nonce) then
    redis.call('HSET', places, owner, table.concat({ nonce, expiresAtMs, wants, isListening, remainder }, ' '))
  end
  return ttlMs
end

local answers = {}
for i = 1, #keys / 3 do
  answers[i] = renew(keys[3 * i - 2], keys[3 * i - 1], keys[3 * i], owners[2 * i + 1], owners[2 * i + 2])
end
return answers
