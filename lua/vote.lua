-- One master's vote for a Redlock: takes the lock there if nobody holds it. Either way the master remembers for how long it was asked to
-- keep it, to tell others after a master has restarted empty. Of a fenced lock it says what a token must be at least; raise-token.lua
-- writes one. Safe to send twice: the owner is fresh for every election. To find it in the lock means that this very command ran before and
-- its reply was lost: the lease starts anew. The memory is only ever made longer.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] longest (string): the longest lease that was asked for, in ms; there until all of them are over
-- KEYS[3] counter (string): the last fencing token that was given out; only of a fenced lock
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] leaseMs (integer, ms): how long the lock is kept without a renewal
-- Returns {longestMs (integer: what was remembered before; 0: nothing)} when the owner holds the lock now, of a fenced lock {longestMs,
-- token (string)}; otherwise {longestMs, holder (string), ttlMs (integer, -1: no expiry), how many were asked to let go, if its client may
-- keep it, or its count, if that is -2 or -3 (integer)}.
-- Error KEYCONFLICT when the hash is no lock or the counter no token; WRONGTYPE when a key is of another type.
local lock, longest, counter = unpack(KEYS)
local owner, leaseMs, lease = ARGV[1], tonumber(ARGV[2]), ARGV[2] -- as it came, for commands

-- include: refusal

local longestMs = tonumber(redis.call('GET', longest)) or 0
local ttlMs = redis.call('PTTL', lock)
local isFree = ttlMs == -2
local count = not isFree and redis.call('HGET', lock, owner)
local isOurs = count and count ~= '-2'
local answer = { longestMs }
local refused

if isFree or isOurs then
  if counter then
    -- include: next-token
    -- Before anything is written: there may be something else at the counter's key. (It is not given so far, nor remembered.)
    local token, conflict = nextToken(counter, 0)
    if not token then
      return conflict
    end
    answer[2] = token
  end
  if isFree then
    redis.call('HSET', lock, owner, 1)
  end
  -- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last.
  refused = refusal('PEXPIRE', lock, string.format('%.0f', math.max(ttlMs, leaseMs)))
else
  local fields = redis.call('HLEN', lock) == 1 and redis.call('HGETALL', lock)
  -- include: holder, wish
  answer = { longestMs, holder, ttlMs, heard }
end

-- A vote that is not remembered must not count.
if longestMs <= leaseMs then
  refused = refused or refusal('SET', longest, lease, 'PX', lease)
elseif not refused then
  local memoryTtlMs = redis.call('PTTL', longest)
  if memoryTtlMs < leaseMs then
    -- Without an end, it gets that of the longest lease.
    local lastMs = memoryTtlMs == -1 and string.format('%.0f', math.min(longestMs, 2 ^ 52)) or lease
    refused = refusal('PEXPIRE', longest, lastMs)
  end
end
if refused then
  if isFree then
    redis.call('HDEL', lock, owner)
  elseif isOurs and ttlMs > 0 then
    redis.call('PEXPIRE', lock, string.format('%.0f', ttlMs))
  end
  return refused
end
return answer
