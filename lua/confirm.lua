-- Confirms a fair lock that was handed over: sets the lease that was asked for, also a shorter one than the place had. Or releases
-- a lock that has to stay taken for a while: makes the lease shorter, never longer, and leaves the owner in place until it ends, with a
-- count of -2.
-- Safe to send twice and to arrive late: the hand-over left a hold count of 0, every confirmation and every nested acquisition makes it 01
-- or more, and only while it is 0 may a confirmation make the lease shorter. A later copy of a release finds a lease that ends sooner; after
-- a release, nothing renews the lock, and its owner has it no more.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] forced (string): the last owner that was forced out
-- KEYS[3] line (sorted set): owner -> ticket
-- KEYS[4] places (hash): owner -> "<nonce> <expiresAtMs> <wants> <isListening> <listensAt>", of a fenced lock " <tokenTtlMs>" behind it
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] leaseMs (integer, ms): the lease that was asked for, or for how long the lock stays taken
-- ARGV[3] channel (string): the lock's unlock channel
-- ARGV[4] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub, for the unlock channel
-- ARGV[5] grants (string): what the names of the channels begin with where clients listen for their grants
-- ARGV[6] publishGrant (string): PUBLISH or SPUBLISH, for those
-- ARGV[7] isRelease (0 or 1): whether the owner gives the lock up
-- Returns 'kept', or how the lock was lost: 'taken', 'forced' or 'deleted' (also when it expired); after a release always 'deleted'.
local lock, forced, line, places = unpack(KEYS)
local owner, leaseMs, lease, channel = ARGV[1], tonumber(ARGV[2]), ARGV[2], ARGV[3] -- as it came, for commands
local publish, grants, publishGrant, isRelease = ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '1'

local count = redis.call('HGET', lock, owner)
if not count and isRelease then
  return 'deleted' -- the client asks how it was lost, as after any release
elseif not count or count == '-2' and not isRelease then
  -- include: ours, how-lost
end

local ttlMs = redis.call('PTTL', lock)
-- pcall: the mark is for people, and keeps late commands from renewing the lock. Whatever becomes of it, the release is done.
if isRelease and ttlMs >= 0 and ttlMs <= leaseMs then
  -- A write that changes nothing: after it a full memory refuses nothing more.
  redis.call('HDEL', lock, '')
  redis.pcall('HSET', lock, owner, '-2')
  return 'kept'
end
if count ~= '0' and not isRelease then
  -- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last.
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(ttlMs, leaseMs)))
  return 'kept'
end

-- In this order: a full memory refuses what takes memory only before anything is written.
redis.call('PEXPIRE', lock, lease)
local counted = redis.pcall('HSET', lock, owner, isRelease and '-2' or '01')
if type(counted) == 'table' and not isRelease then
  -- include: undo-lease
  return counted
end
-- The next in line expects the former lease to end. (pcall: the work is done all the same.)
local first = redis.pcall('ZRANGE', line, 0, 0)[1]
local place = first and redis.pcall('HGET', places, first)
if type(place) == 'string' then
  local listensAt = string.match(place, '^%d+ %d+ %d %d (%S*)')
  redis.pcall(publishGrant, grants .. listensAt, 'ends ' .. leaseMs)
end
if isRelease or 2 * leaseMs < ttlMs then
  -- Waiters of the reentrant lock of this name sleep until the former lease ends.
  redis.pcall(publish, channel, '0')
end
return 'kept'
