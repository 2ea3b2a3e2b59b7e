-- Which of a read-write lock's holders keeps it for longest: whether there is one, and until when somebody has it.
--
-- KEYS[1] lock (hash): "capacity" and "used", in permits; owner -> weight, with a "?" until it is confirmed
-- KEYS[2] leases (sorted set): holder -> expiresAtMs
--
-- Returns {weight (string), endsInMs (integer)} of the holder whose lease ends last; nil when nobody holds it.
-- Error KEYCONFLICT when the hash is no weighted lock, or a semaphore; WRONGTYPE when a key is of another type.
local lock = KEYS[1]
local leases = KEYS[2]

local capacity = redis.call('HGET', lock, 'capacity')
local ttlMs = redis.call('PTTL', lock)
-- A hash without an end is somebody else's, whatever its fields are called.
if ttlMs ~= -2 and (not capacity or ttlMs == -1) then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a weighted lock')
elseif capacity and capacity ~= '2147483648' then
  return redis.error_reply('KEYCONFLICT one is a read-write lock, the other a semaphore')
end

local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)

local last = redis.call('ZRANGE', leases, -1, -1, 'WITHSCORES')
if not last[1] or tonumber(last[2]) <= nowMs then
  return false
end
local weight = redis.call('HGET', lock, last[1])
return weight and { string.match(weight, '^%d+'), tonumber(last[2]) - nowMs }
