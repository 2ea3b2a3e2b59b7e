-- Gives a lock up, whatever its hold count, and wakes those who wait for it.
-- Safe to send twice and to arrive late: the owner is never used again after it went, so a copy finds nothing to release. (With a count of -2,
-- of a lock that was to stay taken for a while, that time is over by the client's clock.)
--
-- KEYS[1] lock (hash): owner -> hold count
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] channel (string): the lock's unlock channel
-- ARGV[3] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub; empty: tell nobody
-- Returns 0 when this owner does not hold it (any more); when it was released 1, and 1 more for each listener that was told; why nobody was
-- told (string) when it was released, but publishing was refused.
local lock = KEYS[1]
local owner, channel, publish = ARGV[1], ARGV[2], ARGV[3]

-- include: release
