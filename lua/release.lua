-- Gives a lock up, whatever its hold count, and wakes those who wait for it.
--
-- Safe to send twice and to arrive late: the owner's field is never used again after it went, so a copy that comes
-- later finds nothing to release.
--
-- KEYS[1] lock (hash): owner -> hold count
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] channel (string): the lock's unlock channel
-- ARGV[3] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub; empty: tell nobody
--
-- Returns 0 when this owner does not hold it (any more); when it was released 1, and 1 more for each listener that was told; why
-- nobody was told (string) when it was released, but publishing was refused.
local lock = KEYS[1]
local owner = ARGV[1]
local channel = ARGV[2]
local publish = ARGV[3]

if redis.call('HDEL', lock, owner) == 0 then
  return 0
end
-- pcall: a user without permission for the channel must still be able to release.
local told = publish ~= '' and redis.pcall(publish, channel, '0') or 0
return type(told) == 'table' and told.err or 1 + told
