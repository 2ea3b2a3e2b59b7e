-- Lowers the number of permits that an owner has of a weighted lock, perhaps to none, which also takes it out of the line; or sets the lease of
-- an owner that keeps them, or of one that has released them and keeps others out until it ends. Then lets in waiters in the order of the line,
-- until one does not fit. Safe to send twice and to arrive late: the weight is a target, it is only made lower, and an owner is never used again
-- after it went. A hand-over leaves a "?" at the weight; every command on which its holder relies for longer removes it; and only with it, or by
-- a release, may a lease become shorter. The lease of a receiver ends when that of its place would have ended; so a receiver that never learns
-- of it delays the others no longer than a place would have.
--
-- KEYS[1] lock (hash): "capacity" and "used", in permits; owner -> weight; behind it "~" if it was handed over, "?" until that is confirmed,
-- "." if its owner has released it, and ">" if its owner was exported
-- KEYS[2] leases (sorted set): holder -> expiresAtMs
-- KEYS[3] line (sorted set): owner -> ticket
-- KEYS[4] places (hash): owner -> "w<weight> <nonce> <expiresAtMs> <leaseMs> <isFixed> <isListening> <listensAt>"
-- ARGV[1] owner (string): whose weight or lease is set; empty: nobody's, only see to it that free permits move on
-- ARGV[2] target (integer): how many permits the owner is to have at most; 0: none, and no place in line; -1: as many as it has
-- ARGV[3] leaseMs (integer, ms): unless the target is 0, the lease ends no earlier than this from now; 0: it stays as it is
-- ARGV[4] shortens (0 to 3): 1: a lease that was handed over may become shorter, too; 2: the owner releases what it has, any lease becomes
-- shorter, and none longer; 3: as 0, and the owner is exported
-- ARGV[5] grants (string): what the names of the channels begin with where clients listen for their grants
-- ARGV[6] publishGrant (string): PUBLISH or SPUBLISH, for those
-- ARGV[7] isCounted (0 or 1): whether this server knows of all who listen to those
-- Returns {held (1, or 0: this owner held nothing), lookInMs (integer: when somebody in line has to look again; -1: nobody is left in line;
-- -2: the same, and nobody was let in; -3: it is to be called again, since many were let in or dropped), grants (array of strings: "<nonce>
-- <owner>" of each that was let in), what was not told and why (string, string: channel and error, only when publishing was refused)}.
local lock, leases, line, places = unpack(KEYS)
local owner, target, leaseMs, shortens = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local grants, publishGrant, isCounted = ARGV[5], ARGV[6], ARGV[7] == '1'

-- How many owners one call lets in and drops at most; and among how many behind the first it looks for a live client.
local MOST, MOST_LOOKED_AT = 250, 16

-- include: now, ours
-- include: refusal, whole, is-deaf, ttl-of, has-holders

local function weightOf(field)
  return tonumber(string.match(field or '', '^%d+')) or 0
end

local known = ours('HMGET', lock, 'capacity', 'used', owner) or {}
local capacity = tonumber(known[1])
-- The holders, in the order in which they lapse. Holders are in both keys: with either of them missing there are none.
local holders = capacity and ours('ZRANGE', leases, 0, 1, 'WITHSCORES') or {}
local hadHolders = holders[1] ~= nil
local lockTtlMs = capacity and not hadHolders and redis.call('PTTL', lock)
if lockTtlMs == -1 and not hasHolders(lock) then
  capacity = nil
end
local used = capacity and tonumber(known[2]) or 0
local field = capacity and owner ~= '' and known[3] or nil
local isTorn = used > 0 and not hadHolders
if isTorn then
  used, field = 0, nil
end

-- The holders that go, the places that go, and the new fields of the lock and of the leases for the owners that stay or come.
local going, leaving, fields, ends = {}, {}, {}, {}
local isGoing = {}
-- The former ends of the leases that may change.
local formerEnds = {}
local function goes(holder, weight)
  used = used - weight
  going[#going + 1] = holder
  isGoing[holder] = true
end

if holders[2] and tonumber(holders[2]) <= nowMs then
  local lapsed = {}
  local found = redis.call('ZRANGEBYSCORE', leases, '-inf', whole(nowMs), 'WITHSCORES', 'LIMIT', 0, MOST)
  for i = 1, #found, 2 do
    lapsed[#lapsed + 1] = found[i]
    formerEnds[found[i]] = found[i + 1]
  end
  local weights = redis.call('HMGET', lock, unpack(lapsed))
  for i, holder in ipairs(lapsed) do
    goes(holder, weightOf(weights[i]))
  end
  holders = redis.call('ZRANGE', leases, #lapsed, #lapsed + 1, 'WITHSCORES')
end

-- A lock that is gone, or that is something else now, may have left a lease.
if not capacity and owner ~= '' and target == 0 then
  goes(owner, 0)
end

-- Who has released its permits, which stay taken for a while, has no more to give up, and nothing to rely on.
local isReleased = field and string.find(field, '.', 1, true)
local isHeld = field and not isGoing[owner] and (not isReleased or shortens == '2')
local newEndMs
if isHeld and target == 0 then
  goes(owner, weightOf(field))
elseif isHeld then
  local weight = weightOf(field)
  local isUnconfirmed = string.find(field, '?', 1, true) ~= nil
  local newWeight = target > 0 and math.min(target, weight) or weight
  used = used - weight + newWeight
  formerEnds[owner] = redis.call('ZSCORE', leases, owner)
  newEndMs = tonumber(formerEnds[owner])
  if leaseMs > 0 then
    local mayShorten = isUnconfirmed and shortens == '1'
    if shortens == '2' then
      newEndMs = math.min(newEndMs, nowMs + leaseMs)
    else
      newEndMs = mayShorten and nowMs + leaseMs or math.max(newEndMs, nowMs + leaseMs)
    end
  end
  -- Written even if it is the same: WAIT asks replicas for what its own connection wrote last.
  ends = { whole(newEndMs), owner }
  local mark = shortens == '2' and '.' or shortens == '3' and '>' or ''
  fields = { owner, whole(newWeight) .. (string.find(field, '~', 1, true) and '~' or '') .. mark }
end

local function parse(text)
  local form = '^w(%d+) (%d+) (%d+) (%d+) (%d) (%d) (.*)$'
  local weight, nonce, expiresAtMs, lease, isFixed, isListening, listensAt = string.match(text or '', form)
  return weight and {
    weight = tonumber(weight), nonce = nonce, expiresAtMs = tonumber(expiresAtMs), leaseMs = tonumber(lease),
    isFixed = isFixed == '1', isListening = isListening == '1', listensAt = listensAt,
  }
end

-- The messages, by client, in the order of the line.
local told, messages, given = {}, {}, {}
local function tell(listensAt, message)
  if not messages[listensAt] then
    messages[listensAt] = {}
    told[#told + 1] = listensAt
  end
  table.insert(messages[listensAt], message)
end

-- Whether a waiter has to go on waiting. If not, its place goes: it is let in, or dropped.
local function hasToWait(candidate, place)
  if not place or place.expiresAtMs <= nowMs then
    return false
  elseif place.weight > capacity then
    tell(place.listensAt, 'gone ' .. candidate)
    return false
  elseif place.isListening and isCounted and isDeaf(place.listensAt) then
    return false -- its client is gone: if it comes back, it has its ticket
  elseif used + place.weight > capacity then
    return true
  end
  used = used + place.weight
  isGoing[candidate] = nil -- an owner that lapsed may be let in again
  fields[#fields + 1] = candidate
  fields[#fields + 1] = whole(place.weight) .. (place.isFixed and '~?' or '~')
  ends[#ends + 1] = whole(place.expiresAtMs)
  ends[#ends + 1] = candidate
  given[#given + 1] = place.nonce .. ' ' .. candidate
  tell(place.listensAt, given[#given])
  return false
end

-- The first in line that has to wait.
local waiting
local isMore = #going >= MOST
-- Two at a time to begin with: mostly one goes in and the next one has to wait.
local index, count, hasLine = 0, 2, false
while capacity and not isMore and not waiting do
  local inLine = ours('ZRANGE', line, index, index + count - 1) or {}
  local found = inLine[1] and (ours('HMGET', places, unpack(inLine)) or {})
  hasLine = hasLine or inLine[1] ~= nil
  for i, candidate in ipairs(inLine) do
    local place = parse(found[i])
    isMore = #going + #leaving >= MOST
    if isMore then
      break
    elseif candidate ~= owner or target ~= 0 then
      if hasToWait(candidate, place) then
        waiting = place
        break
      end
      leaving[#leaving + 1] = candidate
    end
  end
  if #inLine < count then
    break
  end
  index, count = index + count, 32
end
if owner ~= '' and target == 0 and (hasLine or not isHeld) then
  leaving[#leaving + 1] = owner
end

-- When the first of the new holders lapses; and when the last lease of holders and of places in line ends: so long the keys live.
local mustLast = not hadHolders or newEndMs ~= nil
local firstEndMs = math.huge
local lastEndMs = mustLast and nowMs + (lockTtlMs or ttlOf(lock, leases)) or nowMs
for i = 1, #holders, 2 do
  if not isHeld or holders[i] ~= owner then
    firstEndMs = math.min(firstEndMs, tonumber(holders[i + 1]))
  end
end
for i = 1, #ends, 2 do
  firstEndMs = math.min(firstEndMs, tonumber(ends[i]))
  lastEndMs = math.max(lastEndMs, tonumber(ends[i]))
end
if newEndMs and shortens == '2' and not hasLine then
  -- The keys must not outlast the holders.
  lastEndMs = newEndMs
  local last = redis.call('ZRANGE', leases, -2, -1, 'WITHSCORES')
  for i = 1, #last, 2 do
    if last[i] ~= owner then
      lastEndMs = math.max(lastEndMs, tonumber(last[i + 1]))
    end
  end
end
local lookInMs = isMore and -3 or #given > 0 and -1 or -2
if waiting then
  lookInMs = math.max(math.min(firstEndMs, waiting.expiresAtMs) - nowMs, 0)
end

-- The last holders may have lapsed as many as one call drops: the call after that finds a lock that is nobody's.
local isNobodys = capacity and not hadHolders and not hasLine
if #going > 0 or #leaving > 0 or #fields > 0 or isTorn or isNobodys then
  -- Writes that change nothing, before those that do: these commands are known to be permitted then, and after any write a full
  -- memory refuses nothing more.
  ours('ZREM', line, '')
  ours('HDEL', places, '')
  if isTorn then
    redis.call('DEL', lock)
  end
  -- What is new is written before the old goes: while a slot migrates, a key that is gone for a moment is out of reach.
  if #ends > 0 then
    redis.call('ZADD', leases, unpack(ends))
  end
  local isEmpty = used == 0 and #fields == 0 and not waiting and not isMore
  if not isEmpty then
    local words = { 'capacity', known[1], 'used', whole(used), unpack(fields) }
    local refused = mustLast and refusal('PEXPIREAT', leases, whole(lastEndMs)) or refusal('HSET', lock, unpack(words))
    if refused then
      -- No weight was given: nobody holds more than before.
      for i = 2, #ends, 2 do
        local formerEndMs = formerEnds[ends[i]]
        if formerEndMs then
          redis.pcall('ZADD', leases, formerEndMs, ends[i])
        else
          redis.pcall('ZREM', leases, ends[i])
        end
      end
      return refused
    end
    if mustLast then
      redis.call('PEXPIREAT', lock, whole(lastEndMs))
    end
  end
  if #leaving > 0 then
    ours('ZREM', line, unpack(leaving))
    ours('HDEL', places, unpack(leaving))
  end
  local gone = {}
  for _, holder in ipairs(going) do
    if isGoing[holder] then
      gone[#gone + 1] = holder
    end
  end
  if #gone > 0 then
    ours('ZREM', leases, unpack(gone))
  end
  if isEmpty and capacity then
    gone[#gone + 1] = 'used'
    gone[#gone + 1] = 'capacity'
  end
  if #gone > 0 then
    ours('HDEL', lock, unpack(gone))
  end
end

-- A live client has to look when permits may be free, or when the first in line may be gone. Each renewal tells the waiters when that is;
-- a message is only needed for a time before the next renewal.
if waiting then
  local leftMs = waiting.expiresAtMs - nowMs
  if 2 * leftMs >= waiting.leaseMs then
    if 2 * lookInMs < leftMs then
      tell(waiting.listensAt, 'ends ' .. whole(lookInMs))
    end
  else
    -- The first one missed its renewal. (pcall: the writes are done.)
    local inLine = redis.pcall('ZRANGE', line, 1, MOST_LOOKED_AT)
    local found = inLine[1] and redis.pcall('HMGET', places, unpack(inLine)) or {}
    for i = 1, #inLine do
      local place = parse(found[i])
      if place and 2 * (place.expiresAtMs - nowMs) >= place.leaseMs then
        tell(place.listensAt, 'ends ' .. whole(lookInMs))
        break
      end
    end
  end
end

local channel, reason
for _, listensAt in ipairs(told) do
  -- pcall: a user without permission for the channel must still be able to release.
  local reply = redis.pcall(publishGrant, grants .. listensAt, cjson.encode(messages[listensAt]))
  if type(reply) == 'table' then
    channel, reason = grants .. listensAt, reply.err
  end
end
return { isHeld and 1 or 0, lookInMs, given, channel, reason }
