-- Takes a lock that nobody holds, and gives its new holder a fencing token, larger than all before it: the outermost acquisition
-- of an owner.
--
-- Safe to send twice. The owner's field is fresh for every outermost acquisition, so finding it means
-- that this very command ran before and its reply was lost: the lock is ours, the lease starts anew, and the token is
-- the next one. A copy uses up a token; none is given twice, and none is smaller than one before it.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] counter (string): the last fencing token that was given out
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] leaseMs (integer, ms): how long the lock is kept without a renewal
-- ARGV[3] tokenTtlMs (integer, ms): how long the token is remembered, beyond what it is ahead of the clock; 0: for ever
--
-- Returns the token (string) when the owner holds the lock now; otherwise {holder (string), ttlMs (integer, -1: no expiry)}.
-- Error KEYCONFLICT when the hash is no lock or the counter no token; WRONGTYPE when a key is of another type.
local lock = KEYS[1]
local counter = KEYS[2]
local owner = ARGV[1]
local leaseMs = ARGV[2]
local tokenTtlMs = tonumber(ARGV[3])

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

local function setToken(counter, token, rememberMs)
  if rememberMs then
    return redis.pcall('SET', counter, token, 'PX', string.format('%.0f', rememberMs))
  end
  return redis.pcall('SET', counter, token)
end

local isFree = redis.call('EXISTS', lock) == 0
if not isFree and redis.call('HEXISTS', lock, owner) == 0 then
  -- A lock has one owner, which may be a negative number of a Redisson thread. More fields, or one of another form, belong
  -- to something else.
  local holders = redis.call('HLEN', lock) == 1 and redis.call('HKEYS', lock) or {}
  if #holders ~= 1 or not string.match(holders[1], '^.+:%-?%d+$') then
    return redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
  end
  return { holders[1], redis.call('PTTL', lock) }
end

-- Before anything is written: there may be something else at the counter's key.
local token, remember = nextToken(counter, tokenTtlMs)
if not token then
  return remember
end
local ttlMs = 0
if isFree then
  redis.call('HSET', lock, owner, 1)
else
  ttlMs = redis.call('PTTL', lock)
end
-- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last, and this is a new one.
local done = redis.pcall('PEXPIRE', lock, isFree and leaseMs or string.format('%.0f', math.max(ttlMs, tonumber(leaseMs))))
if done == 1 then
  done = setToken(counter, token, remember)
end
if type(done) ~= 'table' or done.err then
  -- Not permitted: a lock without an end would stay for ever, and one without a token guards nothing.
  if isFree then
    redis.call('HDEL', lock, owner)
  elseif ttlMs > 0 then
    redis.call('PEXPIRE', lock, string.format('%.0f', ttlMs))
  end
  return done
end
return token
