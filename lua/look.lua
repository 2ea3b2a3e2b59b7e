-- Looks at a lock: who holds it, and for how long.
--
-- KEYS[1] lock (hash): owner -> hold count
--
-- Returns {holder (string), ttlMs (integer, -1: no expiry)}, or nil when nobody holds it.
-- Error KEYCONFLICT when the hash is no lock; WRONGTYPE when the key is no hash.
local lock = KEYS[1]

local holderCount = redis.call('HLEN', lock)
if holderCount == 0 then
  return false
end
-- A lock has one owner, which may be a negative number of a Redisson thread. More fields, or one of another form, belong
-- to something else.
local holders = holderCount == 1 and redis.call('HKEYS', lock) or {}
if not string.match(holders[1] or '', '^.+:%-?%d+$') then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
end
return { holders[1], redis.call('PTTL', lock) }
