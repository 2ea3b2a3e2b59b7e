-- Sets how many permits a weighted lock has, whatever is declared. No holder is put out. The sender then lets in the next in line.
-- Safe to send twice: it is a target.
--
-- KEYS[1] lock (hash): "capacity" and "used", in permits; owner -> weight, with marks behind it, as in weighted-hand-over.lua
-- KEYS[2] permits (string): the capacity that was set, above what is declared
-- ARGV[1] capacity (integer): how many permits there are from now on
-- ARGV[2] permitsTtlMs (integer, ms): how long that is kept after it was needed last
-- Returns 1.
-- Error KEYCONFLICT when the hash is no weighted lock, or a read-write lock; WRONGTYPE when the lock's key is of another type.
local lock, permits = unpack(KEYS)
local capacity, permitsTtlMs = ARGV[1], ARGV[2]

local former = redis.call('HGET', lock, 'capacity')
-- include: has-holders
local isForeign = redis.call('EXISTS', lock) == 1
if former then
  isForeign = redis.call('PTTL', lock) == -1 and not hasHolders(lock)
end
if isForeign or former == '2147483648' then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a semaphore')
end
if former then
  redis.call('HSET', lock, 'capacity', capacity)
end
local set = redis.pcall('SET', permits, capacity, 'PX', permitsTtlMs)
if set.err then
  if former then
    redis.call('HSET', lock, 'capacity', former)
  end
  return set
end
return 1
