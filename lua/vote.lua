-- One master's vote for a Redlock: takes the lock there if nobody holds it. Whether or not, the master remembers for how
-- long it was asked to keep it, so that it can tell others after a master that forgot a lock has restarted empty.
--
-- Safe to send twice. The owner's field is fresh for every election, so finding it means that this very command ran before
-- and its reply was lost: the vote is ours, and the lease starts anew. The memory is only ever made longer.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] longest (string): the longest lease that was asked for, in ms; there until all of them are over
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] leaseMs (integer, ms): how long the lock is kept without a renewal
--
-- Returns {longestMs (integer: what was remembered before; 0: nothing)} when the owner holds the lock now; otherwise
-- {longestMs, holder (string), ttlMs (integer, -1: no expiry)}.
-- Error KEYCONFLICT when the hash is no lock; WRONGTYPE when a key is of another type.
local lock = KEYS[1]
local longest = KEYS[2]
local owner = ARGV[1]
local leaseMs = tonumber(ARGV[2])

local longestMs = tonumber(redis.call('GET', longest)) or 0
local ttlMs = redis.call('PTTL', lock)
local isFree = ttlMs == -2
local answer = { longestMs }
local done

if isFree then
  redis.call('HSET', lock, owner, 1)
  done = redis.pcall('PEXPIRE', lock, leaseMs)
elseif redis.call('HEXISTS', lock, owner) == 1 then
  -- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last.
  done = redis.pcall('PEXPIRE', lock, math.max(ttlMs, leaseMs))
else
  -- A lock has one owner, which may be a negative number of a Redisson thread. More fields, or one of another form, belong
  -- to something else.
  local holders = redis.call('HLEN', lock) == 1 and redis.call('HKEYS', lock) or {}
  if #holders ~= 1 or not string.match(holders[1], '^.+:%-?%d+$') then
    return redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
  end
  answer = { longestMs, holders[1], ttlMs }
  done = true
end

local function hasFailed(reply)
  return type(reply) == 'table' and reply.err
end

-- A vote that is not remembered must not count.
if not hasFailed(done) then
  if longestMs <= leaseMs then
    done = redis.pcall('SET', longest, leaseMs, 'PX', leaseMs)
  elseif redis.call('PTTL', longest) < leaseMs then
    done = redis.pcall('PEXPIRE', longest, leaseMs)
  end
end
if hasFailed(done) then
  if isFree then
    redis.call('HDEL', lock, owner)
  elseif #answer == 1 and ttlMs > 0 then
    redis.call('PEXPIRE', lock, ttlMs)
  end
  return done
end
return answer
