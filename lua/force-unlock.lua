-- Frees a lock whoever holds it, leaves word for the holder that it was forced out, and wakes those who wait.
-- The word is a key of its own. It ends with the lease that it cut short, or when the holder must have asked.
-- It publishes "<n> forced" on holdfast_wishes:<clientId>, for the owner <clientId>:<n>: its client then asks whether it still has the lock.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] forced (string): the last owner that was forced out
-- ARGV[1] channel (string): the lock's unlock channel
-- ARGV[2] publish (string): PUBLISH, or SPUBLISH where the cluster has sharded pub/sub
-- ARGV[3] wordMs (integer, ms): how long to leave word at most
-- Returns {the owner that was forced out (string), why those who wait were not told (string, only when publishing was refused)}, or nil
-- when nobody held the lock.
-- Error KEYCONFLICT when the hash is no lock; WRONGTYPE when the key is no hash.
local lock, forced = unpack(KEYS)
local channel, publish, wordMs = ARGV[1], ARGV[2], tonumber(ARGV[3])

local holderCount = redis.call('HLEN', lock)
if holderCount == 0 then
  return false
end
local fields = holderCount == 1 and redis.call('HGETALL', lock)
-- include: holder

local ttlMs = redis.call('PTTL', lock)
-- In this order: a full memory refuses what takes memory only before anything is written.
redis.call('DEL', lock)
local leftMs = ttlMs > 0 and math.min(ttlMs, wordMs) or wordMs
local left = redis.pcall('SET', forced, holder, 'PX', string.format('%.0f', leftMs))
if left.err then
  redis.call('HSET', lock, holder, fields[2])
  -- include: undo-lease
  return left
end
-- Its client asks whether it still has the lock. pcall: a user without permission for the channels must still be able to free it.
local client, number = string.match(holder, '^(.+):(%-?%d+)$')
redis.pcall('PUBLISH', 'holdfast_wishes:' .. client, number .. ' forced')
local told = redis.pcall(publish, channel, '0')
return { holder, type(told) == 'table' and told.err or nil }
