-- Takes a fair lock that is free with nobody in line before us, or else joins the line (or renews the place in it).
-- Safe to send twice: the owner is fresh for every outermost acquisition. To find it in the lock means that this very command ran before,
-- or that the lock was handed over meanwhile. A place keeps its ticket and takes the higher nonce, so a copy that arrives late changes
-- nothing; one that makes a place anew, after its owner went, is renewed by nobody and lapses. A copy uses up a token, as in acquire.lua.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] line (sorted set): owner -> ticket
-- KEYS[3] places (hash): owner -> "<nonce> <expiresAtMs> <wants> <isListening> <listensAt>", of a fenced lock " <tokenTtlMs>" behind it
-- KEYS[4] counter (string): the last fencing token that was given out; only of a fenced lock
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] leaseMs (integer, ms): the lease of the lock when it is taken at once
-- ARGV[3] placeLeaseMs (integer, ms): how long the place is kept without a renewal; 0: do not join
-- ARGV[4] nonce (integer): of this command, higher than that of any earlier one of this client
-- ARGV[5] ticket (integer): the one of an earlier place of this owner, to have it again; 0: none
-- ARGV[6] wants (0 to 3): 1 when another lease than a place's is wanted for the lock, and 2 more when a fencing token is
-- ARGV[7] isListening (0 or 1): whether the client's subscription to its grants is known to stand
-- ARGV[8] listensAt (string): the end of the name of the channel where the client listens for its grants
-- ARGV[9] tokenTtlMs (integer, ms): how long a token is remembered, beyond what it is ahead of the clock; 0: for ever; only of a fenced lock
-- Returns 1 when the owner holds the lock now, 2 when it was handed over and its lease is to be confirmed, of a fenced lock {1 or 2, token
-- (string)}; otherwise {who is in the way (string), ttlMs (integer; -1: no expiry, -2: the lock is free, but others are first), ticket
-- (string; 0: not joined), how many were asked to let go, if its client may keep it, or its count, if that is -2 or -3 (integer), why nobody
-- could be asked (string)}.
-- Error KEYCONFLICT when the hash is no lock or the counter no token; WRONGTYPE when a key is of another type.
local lock, line, places, counter = unpack(KEYS)
local owner, leaseMs, placeLeaseMs, placeLease = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[3] -- as it came, for commands
local nonce, ticket, wants, isListening = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local listensAt, tokenTtlMs, tokenTtl = ARGV[8], tonumber(ARGV[9]), ARGV[9] -- as it came, for the place

-- include: refusal, set-token

-- An owner that has released the lock, which has to stay taken for a while, finds it held.
local count = redis.call('HGET', lock, owner)
if count == '-2' then
  count = false
end
local first, isFree, isFirst = {}, false, false
if not count then
  first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  isFree = redis.call('EXISTS', lock) == 0
  isFirst = not first[1] or first[1] == owner or (ticket > 0 and ticket < tonumber(first[2]))
end

-- Before anything is written: there may be something else at the counter's key.
local token, rememberMs
if counter and (count or isFree and isFirst) then
  -- include: next-token
  token, rememberMs = nextToken(counter, tokenTtlMs)
  if not token then
    return rememberMs
  end
end

if count then
  local ttlMs = redis.call('PTTL', lock)
  -- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last.
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(ttlMs, tonumber(leaseMs))))
  local refused = token and setToken(counter, token, rememberMs)
  if refused then
    -- include: undo-lease
    return refused
  end
  -- A count of 0 is a hand-over that was not confirmed yet: its lease may be longer than what is wanted.
  local answer = count == '0' and 2 or 1
  return token and { answer, token } or answer
end

if isFree and isFirst then
  local mayHavePlace = first[1] or ticket > 0
  if mayHavePlace then
    -- A write that changes nothing: from here on it is known to be permitted.
    redis.call('HDEL', places, '')
  end
  -- With a ticket its number says when it joined, not when it got the lock.
  redis.call('HSET', lock, owner, ticket > 0 and '01' or '1')
  -- The lock is taken before the place goes. (If the last of these is not permitted, a token was used up.)
  local refused = refusal('PEXPIRE', lock, leaseMs) or token and setToken(counter, token, rememberMs)
    or mayHavePlace and refusal('ZREM', line, owner)
  if refused then
    redis.call('DEL', lock)
    return refused
  end
  if mayHavePlace then
    redis.call('HDEL', places, owner)
  end
  return token and { 1, token } or 1
end

local inTheWay = first[1]
local heardBy, why
if not isFree then
  local fields = redis.call('HLEN', lock) == 1 and redis.call('HGETALL', lock)
  -- include: holder, wish
  inTheWay, heardBy, why = holder, heard, unsaid
end
local ttlMs = redis.call('PTTL', lock)
if placeLeaseMs == 0 then
  return { inTheWay, ttlMs, '0', heardBy, why }
end

-- include: now, place-of
if present then
  -- First: a full memory refuses what takes memory only before anything is written.
  redis.call('PEXPIRE', line, string.format('%.0f', math.max(redis.call('PTTL', line), placeLeaseMs)))
else
  redis.call('ZADD', line, string.format('%.0f', ticket), owner)
end
local refused
if not former or tonumber(string.match(former, '^%d+')) <= tonumber(nonce) then
  local expiresAtMs = string.format('%.0f', nowMs + placeLeaseMs)
  local place = table.concat({ nonce, expiresAtMs, wants, isListening, listensAt, tokenTtl }, ' ')
  refused = refusal('HSET', places, owner, place)
end
for _, key in ipairs({ line, places }) do
  if not refused and redis.call('PTTL', key) < placeLeaseMs then
    refused = refusal('PEXPIRE', key, placeLease)
  end
end
if refused then
  -- include: undo-place
  return refused
end
return { inTheWay, ttlMs, string.format('%.0f', ticket), heardBy, why }
