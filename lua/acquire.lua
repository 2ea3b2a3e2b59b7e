-- Takes a lock that nobody holds: the outermost acquisition of an owner.
--
-- Safe to send twice. The owner's field is fresh for every outermost acquisition, so finding it means
-- that this very command ran before and its reply was lost: the lock is ours, and the lease starts anew.
--
-- KEYS[1] lock (hash): owner -> hold count
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] leaseMs (integer, ms): how long the lock is kept without a renewal
--
-- Returns 1 when the owner holds the lock now; otherwise {holder (string), ttlMs (integer, -1: no expiry)}.
-- Error KEYCONFLICT when the hash is no lock; WRONGTYPE when the key is no hash.
local lock = KEYS[1]
local owner = ARGV[1]
local leaseMs = ARGV[2]

if redis.call('EXISTS', lock) == 0 then
  redis.call('HSET', lock, owner, 1)
  local kept = redis.pcall('PEXPIRE', lock, leaseMs)
  if kept ~= 1 then
    -- Not permitted: a lock without an end would stay for ever.
    redis.call('HDEL', lock, owner)
    return kept
  end
  return 1
end

if redis.call('HEXISTS', lock, owner) == 1 then
  -- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last, and this is a new one.
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(redis.call('PTTL', lock), tonumber(leaseMs))))
  return 1
end

-- A lock has one owner, which may be a negative number of a Redisson thread. More fields, or one of another form, belong
-- to something else.
local holders = redis.call('HLEN', lock) == 1 and redis.call('HKEYS', lock) or {}
if #holders ~= 1 or not string.match(holders[1], '^.+:%-?%d+$') then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
end
return { holders[1], redis.call('PTTL', lock) }
