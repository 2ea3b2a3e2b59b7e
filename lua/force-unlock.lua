-- Frees a lock whoever holds it, leaves word for the holder that it was forced out, and wakes those who wait.
--
-- The word is a key of its own that ends with the lease it cut short: after that the holder knows anyway.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] forced (string): the last owner that was forced out
-- ARGV[1] channel (string): the lock's unlock channel
-- ARGV[2] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub
-- ARGV[3] fallbackMs (integer, ms): how long to leave word when the lock has no expiry
--
-- Returns the owner that was forced out (string), or nil when nobody held the lock.
-- Error KEYCONFLICT when the hash is no lock; WRONGTYPE when the key is no hash.
local lock = KEYS[1]
local forced = KEYS[2]
local channel = ARGV[1]
local publish = ARGV[2]
local fallbackMs = ARGV[3]

local holderCount = redis.call('HLEN', lock)
if holderCount == 0 then
  return false
end
local holder = holderCount == 1 and redis.call('HKEYS', lock)[1] or ''
if not string.match(holder, '^.+:%d+$') then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
end

local ttlMs = redis.call('PTTL', lock)
redis.call('SET', forced, holder, 'PX', ttlMs > 0 and ttlMs or fallbackMs)
redis.call('DEL', lock)
redis.pcall(publish, channel, '0')
return holder
