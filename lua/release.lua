-- Gives up one hold, or with a count of 0 the lock itself, and then wakes those who wait for it.
--
-- Safe to send twice and to arrive late: it carries the target count, and the owner's field is never used
-- again after it went, so a copy that comes later finds nothing to release.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] forced (string): the last owner that was forced out
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] holdCount (integer): the count that is left; 0 frees the lock
-- ARGV[3] channel (string): the lock's unlock channel
-- ARGV[4] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub
--
-- Returns 'kept', or how the lock was lost before: 'taken', 'forced' or 'deleted' (also when it expired).
local lock = KEYS[1]
local forced = KEYS[2]
local owner = ARGV[1]
local holdCount = tonumber(ARGV[2])
local channel = ARGV[3]
local publish = ARGV[4]

if holdCount == 0 and redis.call('HDEL', lock, owner) == 1 then
  -- pcall: a user without permission for the channel must still be able to release.
  redis.pcall(publish, channel, '0')
  return 'kept'
end
if holdCount > 0 and redis.call('HEXISTS', lock, owner) == 1 then
  redis.call('HSET', lock, owner, holdCount)
  return 'kept'
end

if redis.call('GET', forced) == owner then
  redis.call('DEL', forced)
  return 'forced'
end
return redis.call('EXISTS', lock) == 1 and 'taken' or 'deleted'
