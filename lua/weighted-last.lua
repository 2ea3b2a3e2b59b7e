-- The holder that keeps a read-write lock for longest: whether there is one, and until when the lock is held.
--
-- KEYS[1] lock (hash): "capacity" and "used", in permits; owner -> weight, with marks behind it, as in weighted-hand-over.lua
-- KEYS[2] leases (sorted set): holder -> expiresAtMs
-- Returns {weight (string), endsInMs (integer)} of the holder whose lease ends last; nil when nobody holds it.
-- Error KEYCONFLICT when the hash is no weighted lock, or a semaphore; WRONGTYPE when a key is of another type.
local lock, leases = unpack(KEYS)

local isReadWrite = true
local capacity = tonumber(redis.call('HGET', lock, 'capacity'))
local lockTtlMs = redis.call('PTTL', lock)
-- include: weighted-kind

-- include: now
local last = redis.call('ZRANGE', leases, -1, -1, 'WITHSCORES')
if not last[1] or tonumber(last[2]) <= nowMs then
  return false
end
local weight = string.match(redis.call('HGET', lock, last[1]) or '', '^%d+')
return weight and { weight, tonumber(last[2]) - nowMs }
