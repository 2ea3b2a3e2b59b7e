-- Passes what an owner has of a weighted lock to another owner, of another process. Its permits stay taken all the time.
-- Safe to send twice and to arrive late: both owners are fresh and never used again once they went, so a copy finds the successor, or neither.
--
-- KEYS[1] lock (hash): "capacity" and "used", in permits; owner -> weight, with marks behind it, as in weighted-hand-over.lua
-- KEYS[2] leases (sorted set): holder -> expiresAtMs
-- KEYS[3] forced (hash): who was forced out
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] successor (string): "<clientId>:<n>"
-- ARGV[3] leaseMs (integer, ms): how long the successor has it without a renewal
-- Returns 'done' when the successor has it, by this call or an earlier copy; when neither of the two has it, how it was lost: 'forced' or
-- 'deleted' (also when it lapsed).
local lock, leases, forced = unpack(KEYS)
local owner, successor, leaseMs = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- include: now, ours, whole, ttl-of
local function weightOf(holder)
  local weight = ours('HGET', lock, holder)
  local endsAtMs = weight and tonumber(ours('ZSCORE', leases, holder))
  -- Who has released it, though it stays taken, has it no more.
  local isHeld = endsAtMs and endsAtMs > nowMs and not string.find(weight, '.', 1, true)
  return isHeld and string.match(weight, '^%d+')
end

local isRepeat = weightOf(successor)
local weight = isRepeat or weightOf(owner)
if not weight then
  -- (pcall: that it is gone is known, whatever becomes of the word.)
  return redis.pcall('HDEL', forced, owner) == 1 and 'forced' or 'deleted'
end

-- Writes that change nothing first: these commands are known to be permitted then. What is new is written before the old goes.
redis.call('ZREM', leases, '')
redis.call('HDEL', lock, '')
-- Not shorter on a repeat: the successor may have extended its lease since.
local endsAtMs = math.max(nowMs + leaseMs, isRepeat and tonumber(redis.call('ZSCORE', leases, successor)) or 0)
local lastEndMs = whole(math.max(endsAtMs, nowMs + ttlOf(lock, leases)))
redis.call('PEXPIREAT', leases, lastEndMs)
redis.call('PEXPIREAT', lock, lastEndMs)
redis.call('ZADD', leases, whole(endsAtMs), successor)
local counted = not isRepeat and redis.pcall('HSET', lock, successor, weight)
if type(counted) == 'table' then
  redis.call('ZREM', leases, successor)
  return counted
end
if not isRepeat then
  redis.call('ZREM', leases, owner)
  redis.call('HDEL', lock, owner)
end
return 'done'
