-- One master's vote for a Redlock: takes the lock there if nobody holds it. Whether or not, the master remembers for how
-- long it was asked to keep it, so that it can tell others after a master that forgot a lock has restarted empty. Of a fenced lock it
-- says with its vote what a token must be at least; raise-token.lua writes one when most masters have voted.
--
-- Safe to send twice. The owner's field is fresh for every election, so finding it means that this very command ran before
-- and its reply was lost: the vote is ours, and the lease starts anew. The memory is only ever made longer.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] longest (string): the longest lease that was asked for, in ms; there until all of them are over
-- KEYS[3] counter (string): the last fencing token that was given out; only of a fenced lock
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] leaseMs (integer, ms): how long the lock is kept without a renewal
--
-- Returns {longestMs (integer: what was remembered before; 0: nothing)} when the owner holds the lock now, of a fenced lock
-- {longestMs, token (string)}; otherwise {longestMs, holder (string), ttlMs (integer, -1: no expiry)}.
-- Error KEYCONFLICT when the hash is no lock or the counter no token; WRONGTYPE when a key is of another type.
local lock = KEYS[1]
local longest = KEYS[2]
local counter = KEYS[3]
local owner = ARGV[1]
local leaseMs = tonumber(ARGV[2])
local lease = ARGV[2] -- as it came, for commands

-- The next fencing token, and for how long it is to be remembered, in ms (nil: for ever); or nil, and why there is none: {err}.
-- Larger than the last one, and no smaller than the time in microseconds: so tokens grow, too, when the last one was
-- forgotten. It is remembered for `tokenTtlMs` (0: for ever), and longer by what it is ahead of the clock, which may have been set
-- back; never for less than now.
local function nextToken(counter, tokenTtlMs)
  local last = redis.call('GET', counter) or '0'
  local time = redis.call('TIME')
  local nowUs = time[1] * 1000000 + time[2]
  local lastNumber = string.match(last, '^%d+$') and tonumber(last) or 2 ^ 53
  local number = math.max(lastNumber + 1, nowUs)
  -- Lua counts exactly up to 2^53. What comes within 2^40 of that comes from no clock before the year 2255.
  if nowUs > 2 ^ 53 - 2 ^ 40 then
    return nil, redis.error_reply('ERR there are no fencing tokens any more: the clock of the server is past the year 2255')
  elseif number > 2 ^ 53 - 2 ^ 40 then
    return nil, redis.error_reply('KEYCONFLICT the key of the last fencing token holds something else')
  end
  local ttlMs = tokenTtlMs > 0 and redis.call('PTTL', counter) or -1
  local rememberMs = ttlMs ~= -1 and math.max(ttlMs, tokenTtlMs + math.ceil((number - nowUs) / 1000)) or nil
  return string.format('%.0f', number), rememberMs
end

local longestMs = tonumber(redis.call('GET', longest)) or 0
local ttlMs = redis.call('PTTL', lock)
local isFree = ttlMs == -2
local isOurs = not isFree and redis.call('HEXISTS', lock, owner) == 1
local answer = { longestMs }
local done

if counter and (isFree or isOurs) then
  -- Before anything is written: there may be something else at the counter's key. (It is not given so far, nor remembered.)
  local token, refusal = nextToken(counter, 0)
  if not token then
    return refusal
  end
  answer[2] = token
end
if isFree then
  redis.call('HSET', lock, owner, 1)
  done = redis.pcall('PEXPIRE', lock, lease)
elseif isOurs then
  -- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last.
  done = redis.pcall('PEXPIRE', lock, string.format('%.0f', math.max(ttlMs, leaseMs)))
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
    done = redis.pcall('SET', longest, lease, 'PX', lease)
  elseif redis.call('PTTL', longest) < leaseMs then
    done = redis.pcall('PEXPIRE', longest, lease)
  end
end
if hasFailed(done) then
  if isFree then
    redis.call('HDEL', lock, owner)
  elseif isOurs and ttlMs > 0 then
    redis.call('PEXPIRE', lock, string.format('%.0f', ttlMs))
  end
  return done
end
return answer
