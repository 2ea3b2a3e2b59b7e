-- Looks at a lock: who holds it, and for how long.
--
-- KEYS[1] lock (hash): owner -> hold count
-- Returns {holder (string), ttlMs (integer, -1: no expiry)}, or nil when nobody holds it.
-- Error KEYCONFLICT when the hash is no lock; WRONGTYPE when the key is no hash.
local lock = KEYS[1]

local holderCount = redis.call('HLEN', lock)
if holderCount == 0 then
  return false
end
local fields = holderCount == 1 and redis.call('HGETALL', lock)
-- include: holder
return { holder, redis.call('PTTL', lock) }
