-- Renews places in line for weighted locks, many at once: the watchdog's batch. In a cluster, all keys are of one slot.
-- Safe to send twice and to arrive late: it makes no place anew, renews none that lapsed, and an older nonce changes nothing. The permits
-- of an owner that was let in, and may not have heard of it, are kept for as long as its place would have been.
--
-- KEYS[1..] keys (hash, sorted set, sorted set, hash): for the i-th place its lock at 4i-3, leases at 4i-2, line at 4i-1, places at 4i
-- ARGV[1] placeLeaseMs (integer, ms): how long each place is kept without a further renewal
-- ARGV[2] nonce (integer): of this command, higher than that of any earlier one of this client
-- ARGV[3..] owners (string, 0 or 1): for the i-th place its owner at 2i+1, and whether its client listens at 2i+2
-- Returns for each place 'yours' (it was let in), 'gone', or in how many ms somebody in line has to look (integer: when the first lease of
-- a holder ends, or that of the first place; -2: now).
local keys, owners, nonce, placeLeaseMs = KEYS, ARGV, ARGV[2], tonumber(ARGV[1])

-- include: now, ours, ttl-of
local expiresAtMs = nowMs + placeLeaseMs
local expiresAt = string.format('%.0f', expiresAtMs)

-- Asked for at the end: before anything is written it is known to be permitted.
ours('ZRANGE', keys[3], 0, 0)

local function lookInMs(lock, leases, line, places)
  local known = ours('HMGET', lock, 'capacity', 'used') or {}
  local capacity, used = tonumber(known[1]), tonumber(known[2])
  local holder = ours('ZRANGE', leases, 0, 0, 'WITHSCORES') or {}
  local first = ours('ZRANGE', line, 0, 0) or {}
  local place = first[1] and ours('HGET', places, first[1]) or ''
  local weight, lapsesAtMs = string.match(place, '^w(%d+) %d+ (%d+) ')
  local mayMove = not capacity or not holder[1] or not weight or used + weight <= capacity
  if mayMove or tonumber(weight) > capacity then
    return -2
  end
  local endMs = math.min(tonumber(holder[2]), tonumber(lapsesAtMs))
  return endMs > nowMs and endMs - nowMs or -2
end

-- Answered when all are renewed.
local IN_LINE = {}

-- By lock, for those whose keys live long enough: a client has many places in one line.
local isLasting = {}

-- Before anything else is written: a place that lives no longer than its keys would be one without an end of its own.
local function keep(lock, leases, ...)
  if isLasting[lock] then
    return
  end
  for _, key in ipairs({ lock, leases, ... }) do
    local ttlMs = ttlOf(key, leases)
    if ttlMs ~= -2 then
      redis.call('PEXPIREAT', key, string.format('%.0f', math.max(expiresAtMs, nowMs + ttlMs)))
    end
  end
  isLasting[lock] = true
end

local function renew(lock, leases, line, places, owner, isListening)
  local known = ours('HMGET', lock, 'capacity', owner) or {}
  if not known[1] then
    return 'gone'
  end
  -- Who has released its permits, which stay taken for a while, has none.
  local isHolder = known[2] and not string.find(known[2], '.', 1, true)
  local endsAtMs = isHolder and tonumber(ours('ZSCORE', leases, owner))
  if endsAtMs and endsAtMs > nowMs then
    keep(lock, leases, line, places)
    redis.call('ZADD', leases, string.format('%.0f', math.max(endsAtMs, expiresAtMs)), owner)
    return 'yours'
  end
  local place = ours('HGET', places, owner) or ''
  local weight, former, lapsesAtMs, isFixed, listensAt =
    string.match(place, '^(w%d+) (%d+) (%d+) %d+ (%d) %d (.*)$')
  if not weight or tonumber(lapsesAtMs) <= nowMs or not ours('ZSCORE', line, owner) then
    return 'gone'
  end
  keep(lock, leases, line, places)
  if tonumber(former) <= tonumber(nonce) then
    local words = { weight, nonce, expiresAt, ARGV[1], isFixed, isListening, listensAt }
    redis.call('HSET', places, owner, table.concat(words, ' '))
  end
  return IN_LINE
end

local answers = {}
for i = 1, #keys / 4 do
  local at = 4 * i - 3
  answers[i] = renew(keys[at], keys[at + 1], keys[at + 2], keys[at + 3], owners[2 * i + 1], owners[2 * i + 2])
end
-- Once for each line, as it is now that all of these are renewed.
local looks = {}
for i = 1, #keys / 4 do
  local at = 4 * i - 3
  local lock = keys[at]
  if answers[i] == IN_LINE then
    looks[lock] = looks[lock] or lookInMs(lock, keys[at + 1], keys[at + 2], keys[at + 3])
    answers[i] = looks[lock]
  end
end
return answers
