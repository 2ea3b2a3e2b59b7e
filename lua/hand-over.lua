-- Gives up what an owner has, the fair lock or a place in line for it; and if nobody holds the lock then, hands it to
-- the first in line: takes it for that one, and tells its client.
--
-- Safe to send twice and to arrive late: an owner is never used again after it went, and the lock is only handed
-- over when it is free. The lease of the lock ends when that of the place would have ended; so a receiver that
-- never learns of it delays the line no longer than a place in it would have.
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
--
-- Returns {released (1, or 0: this owner did not hold it), grant (string: "<nonce> <owner>" of whom it was handed to, with a
-- fencing token "<nonce>:<token> <owner>", or empty), ttlMs (integer: of the lock; -1: no expiry, -2: it is free, and nobody
-- is in line, -3: it is free, and it is to be called again, since many lapsed places were in the way), what was not told and
-- why (string, string: channel and error, only when publishing was refused)}.
local lock = KEYS[1]
local line = KEYS[2]
local places = KEYS[3]
local counter = KEYS[4]
local owner = ARGV[1]
local channel = ARGV[2]
local publish = ARGV[3]
local grants = ARGV[4]
local publishGrant = ARGV[5]
local isCounted = ARGV[6] == '1'

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

-- A key that became something else must not keep anybody in line, or a lock from being released: there is nothing of ours.
local function ours(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    return not string.find(reply.err, 'WRONGTYPE', 1, true) and redis.call(...)
  end
  return reply
end

-- A client that waits expects the lease to end when it last looked; it need only be told of one that is much shorter.
-- (pcall: what was done is done, and the line may be gone.)
local function tellFirst(ttlMs)
  local first = redis.pcall('ZRANGE', line, 0, 0)[1]
  local place = first and redis.pcall('HGET', places, first)
  if type(place) == 'string' then
    tell(publishGrant, grants .. string.match(place, '^%d+ %d+ %d %d (%S*)'), 'ends ' .. ttlMs)
  end
end

-- Whether a client that said that it listens to its grants is gone. Asked before anything is published, since those who
-- listen at a replica hear what no count counts: a grant that is taken back would be heard.
local function isDeaf(channel)
  -- pcall: a user without permission for PUBSUB must still be able to hand over; nil: not known.
  local counts = redis.pcall('PUBSUB', publishGrant == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counts[2] == 0
end

-- Who goes out of the line, and which of its places was looked at.
local leaving = {}
local index = 0

-- A write that changes nothing, before those that do. If HDEL is not permitted nothing was done yet, and after any write a
-- full memory refuses nothing more.
local function beginWriting()
  ours('HDEL', places, '')
end

-- What the new holder's token adds to its grant: it is remembered for as long as that holder wants. No lock must stay with a
-- holder who gives it up because no token can be given: who gets the lock without one asks for it, and is told why it gets none.
local function withToken(tokenTtlMs)
  local isKnown, token, rememberMs = pcall(nextToken, counter, tokenTtlMs)
  local isGiven = isKnown and token and not setToken(counter, token, rememberMs).err
  return isGiven and ':' .. token or ''
end

local function handTo(first, nonce, expiresAtMs, leaseMs, wants, listensAt, tokenTtl, isHeld, ttlMs)
  beginWriting()
  -- A count of 0 waits for a confirmation that sets another lease.
  redis.call('HSET', lock, first, wants % 2 == 1 and 0 or 1)
  local done = redis.pcall('PEXPIREAT', lock, expiresAtMs)
  if type(done) == 'number' then
    done = redis.pcall('ZREM', line, unpack(leaving))
  end
  if type(done) == 'table' then
    redis.call('HDEL', lock, first)
    if ttlMs > 0 then
      redis.call('PEXPIRE', lock, string.format('%.0f', ttlMs))
    end
    return done
  end
  if isHeld then
    redis.call('HDEL', lock, owner)
  end
  redis.call('HDEL', places, unpack(leaving))
  local isFenced = counter and tonumber(wants) >= 2
  local grant = nonce .. (isFenced and withToken(tonumber(tokenTtl)) or '') .. ' ' .. first
  tell(publishGrant, grants .. listensAt, grant)
  if 2 * leaseMs < ttlMs then
    tellFirst(leaseMs)
    -- Who waits for the reentrant lock of this name sleeps until the former lease ends.
    tell(publish, channel, '0')
  end
  return { isHeld and 1 or 0, grant, leaseMs, refused, reason }
end

local isHeld = owner ~= '' and ours('HGET', lock, owner) ~= false
local ttlMs = redis.call('PTTL', lock)
if not isHeld then
  leaving[1] = owner ~= '' and owner or nil
  if ttlMs ~= -2 then
    if owner ~= '' then
      local wasFirst = (ours('ZRANGE', line, 0, 0) or {})[1] == owner
      beginWriting()
      ours('ZREM', line, owner)
      ours('HDEL', places, owner)
      if wasFirst and ttlMs >= 0 then
        tellFirst(ttlMs)
      end
    end
    return { 0, '', ttlMs, refused, reason }
  end
end

-- From here on it is held by the owner, or free. What is new is written before the old goes: while a slot migrates, a key
-- that is gone for a moment is out of reach.
local isGone = {}
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
while index < MAX_DROPPED do
  local first = (ours('ZRANGE', line, index, index) or {})[1]
  if not first then
    break
  end
  index = index + 1
  if first ~= owner or isHeld then
    leaving[#leaving + 1] = first
    local place = ours('HGET', places, first) or ''
    local nonce, expiresAtMs, wants, isListening, listensAt, tokenTtl =
      string.match(place, '^(%d+) (%d+) (%d) (%d) (%S*) ?(%d*)$')
    local leaseMs = nonce and expiresAtMs - nowMs or 0
    -- A place that was not renewed is dropped; so is that of a client that is gone. If it comes back, it has its ticket.
    if leaseMs > 0 and first ~= owner and not isGone[listensAt] then
      if isListening == '1' and isCounted and isDeaf(grants .. listensAt) then
        isGone[listensAt] = true
      else
        return handTo(first, nonce, expiresAtMs, leaseMs, wants, listensAt, tokenTtl, isHeld, ttlMs)
      end
    end
  end
end

if #leaving > 0 then
  beginWriting()
  ours('ZREM', line, unpack(leaving))
  ours('HDEL', places, unpack(leaving))
end
if isHeld then
  redis.call('HDEL', lock, owner)
  tell(publish, channel, '0')
end
return { isHeld and 1 or 0, '', index < MAX_DROPPED and -2 or -3, refused, reason }
