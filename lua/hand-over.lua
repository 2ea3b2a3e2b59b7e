-- Gives up what an owner has, the fair lock or a place in line. If nobody holds the lock then, takes it for the first in line, and tells
-- its client.
-- Safe to send twice and to arrive late: an owner is never used again after it went, and only a free lock is handed over. Its lease ends
-- when that of the place would have ended; so a receiver that never learns of it delays the line no longer than a place would have.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] line (sorted set): owner -> ticket
-- KEYS[3] places (hash): owner -> "<nonce> <expiresAtMs> <wants> <isListening> <listensAt>", of a fenced lock " <tokenTtlMs>" behind it
-- KEYS[4] counter (string): the last fencing token that was given out; only of a fenced lock
-- ARGV[1] owner (string): who gives up; empty: nobody, only see to it that a free lock moves on
-- ARGV[2] channel (string): the lock's unlock channel
-- ARGV[3] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub, for the unlock channel
-- ARGV[4] grants (string): what the names of the channels begin with where clients listen for their grants
-- ARGV[5] publishGrant (string): PUBLISH or SPUBLISH, for those
-- ARGV[6] isCounted (0 or 1): whether this server knows of all who listen to those
-- Returns {released (1, or 0: this owner did not hold it), grant (string: "<nonce> <owner>" of whom it was handed to, with a fencing token
-- "<nonce>:<token> <owner>", or empty), ttlMs (integer: of the lock; -1: no expiry, -2: it is free, and nobody is in line, -3: it is free,
-- and it is to be called again, since many lapsed places were in the way), what was not told and why (string, string: channel and error,
-- only when publishing was refused)}.
local lock, line, places, counter = unpack(KEYS)
local owner, channel, publish, grants, publishGrant = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local isCounted = ARGV[6] == '1'

-- include: ours, refusal, is-deaf

-- How many lapsed places one call drops at most.
local MAX_DROPPED = 1000

-- The channel on which publishing was refused, and why.
local refused, reason

-- pcall: a user without permission for the channel must still be able to release.
local function tell(command, to, message)
  local reply = redis.pcall(command, to, message)
  if type(reply) == 'table' then
    refused, reason = to, reply.err
  end
end

-- A waiting client knows the end of the lease from its last query; it need only be told if the lease ends much earlier.
-- (pcall: the writes are done, and the line may be gone.)
local function tellFirst(ttlMs)
  local first = redis.pcall('ZRANGE', line, 0, 0)[1]
  local place = first and redis.pcall('HGET', places, first)
  if type(place) == 'string' then
    tell(publishGrant, grants .. string.match(place, '^%d+ %d+ %d %d (%S*)'), 'ends ' .. ttlMs)
  end
end

-- The owners that leave the line.
local leaving = {}

local function leaveLine()
  -- First a write that changes nothing: if HDEL is not permitted nothing was done yet.
  ours('HDEL', places, '')
  ours('ZREM', line, unpack(leaving))
  ours('HDEL', places, unpack(leaving))
end

-- An owner that has released the lock, which has to stay taken for a while, has no more to give up.
local count = owner ~= '' and ours('HGET', lock, owner)
local isHeld = count and count ~= '-2'
local ttlMs = redis.call('PTTL', lock)
if owner ~= '' and not isHeld then
  leaving[1] = owner
end
if not isHeld and ttlMs ~= -2 then
  if owner ~= '' then
    local wasFirst = (ours('ZRANGE', line, 0, 0) or {})[1] == owner
    leaveLine()
    if wasFirst and ttlMs >= 0 then
      tellFirst(ttlMs)
    end
  end
  return { 0, '', ttlMs, refused, reason }
end

-- From here on the owner holds the lock, or it is free: look for the receiver.
-- include: now
local receiver, nonce, expiresAtMs, wants, isListening, listensAt, tokenTtl
local index, leaseMs = 0, 0
while not receiver and index < MAX_DROPPED do
  local first = (ours('ZRANGE', line, index, index) or {})[1]
  if not first then
    break
  end
  index = index + 1
  if first ~= owner or isHeld then
    leaving[#leaving + 1] = first
  end
  local place = first ~= owner and ours('HGET', places, first) or ''
  nonce, expiresAtMs, wants, isListening, listensAt, tokenTtl = string.match(place, '^(%d+) (%d+) (%d) (%d) (%S*) ?(%d*)$')
  leaseMs = nonce and expiresAtMs - nowMs or 0
  -- A place that was not renewed is dropped; so is that of a client that is gone. If it comes back, it has its ticket.
  local isThere = leaseMs > 0 and not isGone[listensAt]
  if isThere and not (isListening == '1' and isCounted and isDeaf(listensAt)) then
    receiver = first
  end
end

if not receiver then
  if #leaving > 0 then
    leaveLine()
  end
  if isHeld then
    redis.call('HDEL', lock, owner)
    tell(publish, channel, '0')
  end
  return { isHeld and 1 or 0, '', index < MAX_DROPPED and -2 or -3, refused, reason }
end

-- A write that changes nothing comes first: if HDEL is not permitted nothing was done yet, and after any write a full memory refuses nothing
-- more. What is new is written before the old goes: while a slot migrates, a key that is gone for a moment is out of reach.
ours('HDEL', places, '')
-- A count of 0 waits for a confirmation that sets another lease. The zero stays in front of it, since the receiver's number says when it joined.
redis.call('HSET', lock, receiver, wants % 2 == 1 and '0' or '01')
local failed = refusal('PEXPIREAT', lock, expiresAtMs) or refusal('ZREM', line, unpack(leaving))
if failed then
  redis.call('HDEL', lock, receiver)
  -- include: undo-lease
  return failed
end
if isHeld then
  redis.call('HDEL', lock, owner)
end
redis.call('HDEL', places, unpack(leaving))

-- A fencing token is remembered for as long as the receiver wants. If no token can be given, the lock is handed over all the same, or it would
-- stay with a holder that gives it up: the receiver then asks for a token, and gets the error.
if counter and tonumber(wants) >= 2 then
  -- include: next-token, set-token
  local isKnown, token, rememberMs = pcall(nextToken, counter, tonumber(tokenTtl))
  if isKnown and token and not setToken(counter, token, rememberMs) then
    nonce = nonce .. ':' .. token
  end
end
local grant = nonce .. ' ' .. receiver
tell(publishGrant, grants .. listensAt, grant)
if 2 * leaseMs < ttlMs then
  tellFirst(leaseMs)
  -- Waiters of the reentrant lock of this name sleep until the former lease ends.
  tell(publish, channel, '0')
end
return { isHeld and 1 or 0, grant, leaseMs, refused, reason }
