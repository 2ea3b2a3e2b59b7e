-- Gives up what an owner has, the fair lock or a place in line for it; and if nobody holds the lock then, hands it to
-- the first in line: takes it for that one, and tells its client.
--
-- Safe to send twice and to arrive late: an owner is never used again after it went, and the lock is only handed
-- over when it is free. The lease of the lock ends when that of the place would have ended; so a receiver that
-- never learns of it delays the line no longer than a place in it would have.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] line (sorted set): owner -> ticket
-- KEYS[3] places (hash): owner -> "<nonce> <expiresAtMs> <isFixed> <isListening> <token>"
-- ARGV[1] owner (string): who gives up; empty: nobody, only see to it that a free lock moves on
-- ARGV[2] channel (string): the lock's unlock channel
-- ARGV[3] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub, for the unlock channel
-- ARGV[4] grants (string): what the names of the channels begin with where clients listen for their grants
-- ARGV[5] publishGrant (string): PUBLISH or SPUBLISH, for those
-- ARGV[6] isCounted (0 or 1): whether this server knows of all who listen to those
--
-- Returns {released (1, or 0: this owner did not hold it), grant (string: "<nonce> <owner>" of whom it was handed to, or
-- empty), ttlMs (integer: of the lock; -1: no expiry, -2: it is free, and nobody is in line, -3: it is free, and it is to
-- be called again, since many lapsed places were in the way), what was not told and why (string, string: channel and
-- error, only when publishing was refused)}.
local lock = KEYS[1]
local line = KEYS[2]
local places = KEYS[3]
local owner = ARGV[1]
local channel = ARGV[2]
local publish = ARGV[3]
local grants = ARGV[4]
local publishGrant = ARGV[5]
local isCounted = ARGV[6] == '1'

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

-- A client that waits expects the lease to end when it last looked; it need only be told of one that is much shorter.
local function tellFirst(ttlMs)
  local first = redis.call('ZRANGE', line, 0, 0)[1]
  local place = first and redis.call('HGET', places, first)
  if place then
    tell(publishGrant, grants .. string.match(place, '^%d+ %d+ %d %d (.*)$'), 'ends ' .. ttlMs)
  end
end

-- Whether a client that said that it listens to its grants is gone. Asked before anything is published, since those who
-- listen at a replica hear what no count counts: a grant that is taken back would be heard.
local function isDeaf(channel)
  -- pcall: a user without permission for PUBSUB must still be able to hand over; nil: not known.
  local counts = redis.pcall('PUBSUB', publishGrant == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return counts[2] == 0
end

-- pcall: a key that became something else must not keep anybody in line, or a lock from being released.
local ttlMs = redis.call('PTTL', lock)
local released = redis.pcall('HDEL', lock, owner)
if released ~= 1 then
  released = 0
  if owner ~= '' then
    local wasFirst = redis.call('ZRANGE', line, 0, 0)[1] == owner
    redis.call('ZREM', line, owner)
    redis.call('HDEL', places, owner)
    if wasFirst and ttlMs >= 0 then
      tellFirst(ttlMs)
    end
  end
end
if released == 0 and ttlMs ~= -2 then
  return { 0, '', ttlMs, refused, reason }
end

local isGone = {}
for _ = 1, MAX_DROPPED do
  local first = redis.pcall('ZPOPMIN', line)[1]
  if not first then
    if released == 1 then
      tell(publish, channel, '0')
    end
    return { released, '', -2, refused, reason }
  end
  local place = redis.call('HGET', places, first) or ''
  redis.call('HDEL', places, first)
  local nonce, expiresAtMs, isFixed, isListening, token = string.match(place, '^(%d+) (%d+) (%d) (%d) (.*)$')
  if nonce and not isGone[token] then
    if isListening == '1' and isCounted and isDeaf(grants .. token) then
      -- If it comes back, it has its ticket.
      isGone[token] = true
    else
      -- A count of 0 waits for a confirmation that sets another lease.
      redis.call('HSET', lock, first, isFixed == '1' and 0 or 1)
      redis.call('PEXPIREAT', lock, expiresAtMs)
      local newTtlMs = redis.call('PTTL', lock)
      -- A place that was not renewed is dropped: its time is over, and so the lock is free again.
      if newTtlMs >= 0 then
        local grant = nonce .. ' ' .. first
        tell(publishGrant, grants .. token, grant)
        if 2 * newTtlMs < ttlMs then
          tellFirst(newTtlMs)
          -- Who waits for the reentrant lock of this name sleeps until the former lease ends.
          tell(publish, channel, '0')
        end
        return { released, grant, newTtlMs, refused, reason }
      end
    end
  end
end
return { released, '', -3 }
