-- Takes permits of a weighted lock if they are free and nobody is in line before us, or else joins the line (or renews the place in it).
-- Safe to send twice: the owner is fresh for every acquisition. To find it among the holders means that this very command ran before, or
-- that it was let in meanwhile. A place keeps its ticket and takes the higher nonce, as in join.lua.
--
-- KEYS[1] lock (hash): "capacity" and "used", in permits; owner -> weight, with marks behind it, as in weighted-hand-over.lua
-- KEYS[2] leases (sorted set): holder -> expiresAtMs
-- KEYS[3] line (sorted set): owner -> ticket
-- KEYS[4] places (hash): owner -> "w<weight> <nonce> <expiresAtMs> <leaseMs> <isFixed> <isListening> <listensAt>"
-- KEYS[5] permits (string): the capacity that was set, above what is declared
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] weight (integer): how many permits are wanted, at least 1
-- ARGV[3] declared (integer): the capacity that the client takes the lock to have
-- ARGV[4] leaseMs (integer, ms): the lease of the permits when they are taken at once
-- ARGV[5] placeLeaseMs (integer, ms): how long the place is kept without a renewal; 0: do not join
-- ARGV[6] nonce (integer): of this command, higher than that of any earlier one of this client
-- ARGV[7] ticket (integer): the one of an earlier place of this owner, to have it again; 0: none
-- ARGV[8] isFixed (0 or 1): whether another lease than a place's is wanted
-- ARGV[9] isListening (0 or 1): whether the client's subscription to its grants is known to stand
-- ARGV[10] listensAt (string): the end of the name of the channel where the client listens for its grants
-- ARGV[11] permitsTtlMs (integer, ms): how long a capacity that was set is kept after this
-- Returns 1 when the owner holds the permits now, 2 when it was let in and its lease is to be confirmed; otherwise {who is in the way
-- (string), lookInMs (integer: when the first lease of a holder ends, or that of the first place; -2: the line is to be looked at now),
-- ticket (string; 0: not joined), -2 or -3 (integer) if that is a holder that has released its permits, or was exported}; or, with nothing changed, {'declared' or 'exceeded', capacity (integer)}: another capacity was declared
-- by others, or the owner wants more than there is.
-- Error KEYCONFLICT when the hash is no weighted lock, or one of the other kind, or what was set is no capacity; WRONGTYPE when a key is of
-- another type.
local lock, leases, line, places, permits = unpack(KEYS)
local owner, weight, declared, leaseMs = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local placeLeaseMs, nonce, ticket, isFixed = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), ARGV[8]
local isListening, listensAt, permitsTtlMs = ARGV[9], ARGV[10], ARGV[11]

-- include: now, whole, refusal, ttl-of

local isReadWrite = declared == 2147483648
local known = redis.call('HMGET', lock, 'capacity', 'used', owner)
local capacity = tonumber(known[1])
local used = tonumber(known[2] or 0)
local isNew = not capacity
local lockTtlMs = redis.call('PTTL', lock)
local isEndless = lockTtlMs == -1
-- include: weighted-kind
if isEndless then
  lockTtlMs = ttlOf(lock, leases)
elseif isNew then
  -- The lock lives as long as its last lease, of holders and of places in line. (Asked before anything is written.)
  lockTtlMs = redis.call('PTTL', line)
end
-- Holders are in both keys, which have one time to live: with either of them missing there are none.
local holder = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')
local isTorn = isNew and holder[1] or used > 0 and not holder[1]
if isTorn then
  holder, used = {}, 0
end

local set = capacity ~= declared and not isReadWrite and redis.call('GET', permits)
if set and not string.match(set, '^%d+$') then
  return redis.error_reply('KEYCONFLICT the key of the capacity that was set holds something else')
elseif isNew then
  capacity = tonumber(set or declared)
elseif capacity ~= declared and not set then
  return { 'declared', capacity }
end
if weight > capacity then
  return { 'exceeded', capacity }
end

-- What was set lasts while somebody needs it. (pcall: where that is not permitted it ends by itself.)
local function answer(reply)
  if set then
    redis.pcall('PEXPIRE', permits, permitsTtlMs)
  end
  return reply
end

local function later(untilMs, ttlMs)
  return whole(math.max(untilMs, nowMs + ttlMs))
end

-- The remains of a lock that lost one of its keys mean nothing, and must not be taken for holders.
local function mend()
  if isTorn then
    redis.call('DEL', isNew and leases or lock)
    isNew = true
  end
end

local endsAtMs = known[3] and not isTorn and tonumber(redis.call('ZSCORE', leases, owner))
if endsAtMs and endsAtMs > nowMs and string.find(known[3], '.', 1, true) then
  -- It has released its permits, which stay taken for a while: a late copy.
  return answer({ owner, endsAtMs - nowMs, '0', -2 })
elseif endsAtMs and endsAtMs > nowMs then
  local newEndMs = math.max(endsAtMs, nowMs + leaseMs)
  local lastEndMs = later(newEndMs, lockTtlMs)
  -- First: a full memory refuses what takes memory only before anything is written. And even if it is the same: WAIT asks replicas for
  -- what its own connection wrote last.
  redis.call('PEXPIREAT', leases, lastEndMs)
  redis.call('PEXPIREAT', lock, lastEndMs)
  redis.call('ZADD', leases, whole(newEndMs), owner)
  -- Let in, and not confirmed yet: its lease may be longer than what is wanted.
  return answer(string.find(known[3], '?', 1, true) and 2 or 1)
end

local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
local isFirst = not first[1] or first[1] == owner or (ticket > 0 and ticket < tonumber(first[2]))
-- A lapsed holder is removed by a hand-over, which lets in waiters in the order of the line.
local hasLapsed = holder[1] ~= nil and tonumber(holder[2]) <= nowMs
if isFirst and not hasLapsed and used + weight <= capacity then
  local mayHavePlace = first[1] ~= nil
  if mayHavePlace then
    -- Writes that change nothing: from here on they are known to be permitted.
    redis.call('ZREM', line, '')
    redis.call('HDEL', places, '')
  end
  mend()
  -- With a ticket its number says when it joined, not when it got the permits.
  local field = whole(weight) .. (ticket > 0 and '~' or '')
  local lastEndMs = later(nowMs + leaseMs, lockTtlMs)
  redis.call('ZADD', leases, whole(nowMs + leaseMs), owner)
  local mustLast = isNew or isEndless or not holder[1] or leaseMs > lockTtlMs
  local refused = mustLast and refusal('PEXPIREAT', leases, lastEndMs)
    or refusal('HSET', lock, 'capacity', whole(capacity), 'used', whole(used + weight), owner, field)
  if refused then
    -- No weight was given: nobody holds more than before.
    redis.pcall('ZREM', leases, owner)
    return refused
  end
  if mustLast then
    redis.call('PEXPIREAT', lock, lastEndMs)
  end
  if mayHavePlace then
    redis.call('ZREM', line, owner)
    redis.call('HDEL', places, owner)
  end
  return answer(1)
end

-- When a waiter has to look: when a holder's lease ends, or that of the first place, or at once if the first could be let in.
local function lookInMs()
  local endMs = holder[1] and tonumber(holder[2]) or math.huge
  if first[1] and not isFirst then
    local place = redis.call('HGET', places, first[1]) or ''
    local wants, lapsesAtMs = string.match(place, '^w(%d+) %d+ (%d+) ')
    if not wants or used + wants <= capacity or tonumber(wants) > capacity then
      return -2
    end
    endMs = math.min(endMs, tonumber(lapsesAtMs))
  end
  return endMs > nowMs and endMs < math.huge and endMs - nowMs or -2
end

local inTheWay = holder[1] or first[1] or owner
local mark = holder[1] and string.match(redis.call('HGET', lock, holder[1]) or '', '^%d+~?(.*)$')
local state = mark == '.' and -2 or mark == '>' and -3 or nil
local lookMs = lookInMs()
if placeLeaseMs == 0 then
  if isNew then
    -- Only a line is left, perhaps of clients that are gone: a hand-over needs the capacity to let its owners in, or to drop them.
    mend()
    local refused = refusal('HSET', lock, 'capacity', whole(capacity), 'used', 0)
      or refusal('PEXPIREAT', lock, later(nowMs, lockTtlMs))
    if refused then
      redis.pcall('DEL', lock)
      return refused
    end
  end
  return answer({ inTheWay, lookMs, '0', state })
end

-- include: place-of
local untilMs = nowMs + placeLeaseMs
local lineTtlMs = redis.call('PTTL', line)
mend()
if present then
  -- First: a full memory refuses what takes memory only before anything is written, and must not end a place.
  redis.call('PEXPIREAT', line, later(untilMs, lineTtlMs))
else
  redis.call('ZADD', line, whole(ticket), owner)
end
local refused = isNew and refusal('HSET', lock, 'capacity', whole(capacity), 'used', 0)
-- A copy that comes late, when the line was deleted meanwhile, must not cut the keys of a place that was renewed since.
local formerNonce, formerEndMs = string.match(former or '', '^w%d+ (%d+) (%d+) ')
local placeEndMs = untilMs
if tonumber(formerNonce or 0) > tonumber(nonce) then
  placeEndMs = math.max(untilMs, tonumber(formerEndMs))
elseif not refused then
  local words = { 'w' .. whole(weight), nonce, whole(untilMs), whole(placeLeaseMs), isFixed, isListening, listensAt }
  refused = refusal('HSET', places, owner, table.concat(words, ' '))
end
for _, key in ipairs({ line, places }) do
  refused = refused or refusal('PEXPIREAT', key, later(placeEndMs, lineTtlMs))
end
if isNew or isEndless or nowMs + lockTtlMs < placeEndMs then
  for _, key in ipairs({ lock, leases }) do
    refused = refused or refusal('PEXPIREAT', key, later(placeEndMs, lockTtlMs))
  end
end
if refused then
  -- include: undo-place
  if isNew then
    redis.pcall('DEL', lock)
  end
  return refused
end
return answer({ inTheWay, lookMs, whole(ticket), state })
