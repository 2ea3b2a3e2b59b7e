-- Looks at a lock: who holds it, and for how long.
--
-- KEYS[1] lock (hash): owner -> hold count
--
-- Returns {holder (string), ttlMs (integer, -1: no expiry)}, or nil when nobody holds it.
-- Error KEYCONFLICT when the hash is no lock; WRONGTYPE when the key is no hash.
local lock = KEYS[1]

-- include: holder-of

local holderCount = redis.call('HLEN', lock)
if holderCount == 0 then
  return false
end
local holder, conflict = holderOf(holderCount == 1 and redis.call('HKEYS', lock))
return conflict or { holder, redis.call('PTTL', lock) }
