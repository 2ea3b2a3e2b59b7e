-- Takes a lock that nobody holds: the outermost acquisition of an owner. With a counter its new holder gets a fencing token, larger than
-- all before.
-- Safe to send twice: the owner is fresh for every outermost acquisition. To find it in the lock means that this very command ran before
-- and its reply was lost: the lease starts anew. A copy uses up a token; none is given twice, and none is smaller than one before it.
--
-- KEYS[1] lock (hash): owner -> hold count; -1: its client may keep it, and perhaps nobody is inside; -2: its owner has released it
-- KEYS[2] counter (string): the last fencing token that was given out; only of a fenced lock
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] leaseMs (integer, ms): how long the lock is kept without a renewal
-- ARGV[3] tokenTtlMs (integer, ms): how long a token is remembered, beyond what it is ahead of the clock; 0: for ever; only of a fenced lock
-- ARGV[4] keptLeaseMs (integer, ms): if the client wants to keep the lock after its use, the lease with which it may; else left out, as all below
-- ARGV[5] own (0 or 1): how many of those who listen for a release of this lock are this client
-- ARGV[6] channel (string): the lock's unlock channel
-- ARGV[7] numsub (string): NUMSUB, or SHARDNUMSUB where the cluster has sharded pub/sub
-- Returns 1 when the owner holds the lock now, 2 when its client may keep it, of a fenced lock its token (string); otherwise {holder (string),
-- ttlMs (integer, -1: no expiry), how many were asked to let go, if it may be kept, or its count, if that is -2 or -3 (integer), why nobody
-- could be asked (string)}.
-- Error KEYCONFLICT when the hash is no lock or the counter no token; WRONGTYPE when a key is of another type.
local lock, counter = KEYS[1], KEYS[2]
local owner, leaseMs, tokenTtlMs, keptLeaseMs, own, channel, numsub = unpack(ARGV)

-- include: acquire
