-- Takes a fair lock that is free with nobody in line before us, or else joins the line (or renews the place in it).
--
-- Safe to send twice: the owner is fresh for every outermost acquisition. Finding it in the lock means that this
-- very command ran before, or that the lock was handed over meanwhile: it is ours. A place keeps its ticket and
-- takes the higher nonce, so a copy that arrives late changes nothing; one that makes a place anew, after its
-- owner went, is not renewed by anybody and lapses. Of a fenced lock, each that finds the lock its owner's gives the next token: a
-- copy uses one up; none is given twice, and none is smaller than one before it.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] line (sorted set): owner -> ticket
-- KEYS[3] places (hash): owner -> "<nonce> <expiresAtMs> <wants> <isListening> <listensAt>", of a fenced lock " <tokenTtlMs>" behind it
-- KEYS[4] counter (string): the last fencing token that was given out; only of a fenced lock
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] leaseMs (integer, ms): the lease of the lock when it is taken at once
-- ARGV[3] placeLeaseMs (integer, ms): how long the place is kept without a renewal; 0: do not join
-- ARGV[4] nonce (integer): of this command, higher than that of any earlier one of this client
-- ARGV[5] ticket (integer): the one of an earlier place of this owner, to have it again; 0: none
-- ARGV[6] wants (0 to 3): 1 when another lease than a place's is wanted for the lock, and 2 more when a fencing token is
-- ARGV[7] isListening (0 or 1): whether the client's subscription to its grants is known to stand
-- ARGV[8] listensAt (string): the end of the name of the channel where the client listens for its grants
-- ARGV[9] tokenTtlMs (integer, ms): how long a token is remembered, beyond what it is ahead of the clock; 0: for ever; only of a fenced lock
--
-- Returns 1 when the owner holds the lock now, 2 when it was handed over and its lease is to be confirmed, of a fenced lock
-- {1 or 2, token (string)}; otherwise {who is in the way (string), ttlMs (integer; -1: no expiry, -2: the lock is free, but
-- others are first), ticket (string; 0: not joined)}.
-- Error KEYCONFLICT when the hash is no lock or the counter no token; WRONGTYPE when a key is of another type.
local lock = KEYS[1]
local line = KEYS[2]
local places = KEYS[3]
local counter = KEYS[4]
local owner = ARGV[1]
local leaseMs = ARGV[2]
local placeLeaseMs = tonumber(ARGV[3])
local placeLease = ARGV[3] -- as it came, for commands
local nonce = ARGV[4]
local ticket = tonumber(ARGV[5])
local wants = ARGV[6]
local isListening = ARGV[7]
local listensAt = ARGV[8]
local tokenTtlMs = tonumber(ARGV[9])
local tokenTtl = ARGV[9] -- as it came, for the place

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

local count = redis.call('HGET', lock, owner)
if count then
  local token, remember
  if counter then
    token, remember = nextToken(counter, tokenTtlMs)
    if not token then
      return remember
    end
  end
  local ttlMs = redis.call('PTTL', lock)
  -- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last.
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(ttlMs, tonumber(leaseMs))))
  local given = token and setToken(counter, token, remember)
  if given and given.err then
    if ttlMs > 0 then
      redis.call('PEXPIRE', lock, string.format('%.0f', ttlMs))
    end
    return given
  end
  -- A count of 0 is a hand-over that was not confirmed yet: its lease may be longer than what is wanted.
  local answer = count == '0' and 2 or 1
  return token and { answer, token } or answer
end

local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
local isFree = redis.call('EXISTS', lock) == 0
local isFirst = not first[1] or first[1] == owner or (ticket > 0 and ticket < tonumber(first[2]))
if isFree and isFirst then
  local token, remember
  if counter then
    token, remember = nextToken(counter, tokenTtlMs)
    if not token then
      return remember
    end
  end
  local place = (first[1] or ticket > 0) and redis.call('HGET', places, owner)
  -- The lock is taken before the place goes, and not at all if something of that is not permitted.
  redis.call('HSET', lock, owner, 1)
  local done = redis.pcall('PEXPIRE', lock, leaseMs)
  if done == 1 and token then
    -- If what follows is not permitted, a token was used up.
    local given = setToken(counter, token, remember)
    done = given.err and given or 1
  end
  if done == 1 and (first[1] or ticket > 0) then
    done = redis.pcall('HDEL', places, owner)
    if type(done) == 'number' then
      done = redis.pcall('ZREM', line, owner)
      if type(done) == 'table' and place then
        redis.call('HSET', places, owner, place)
        redis.call('PEXPIRE', places, string.format('%.0f', redis.call('PTTL', line)))
      end
    end
  end
  if type(done) == 'table' then
    redis.call('DEL', lock)
    return done
  end
  return token and { 1, token } or 1
end

local holder = first[1]
if not isFree then
  -- A lock has one owner, which may be a negative number of a Redisson thread. More fields, or one of another form, belong
  -- to something else.
  local holders = redis.call('HLEN', lock) == 1 and redis.call('HKEYS', lock) or {}
  if #holders ~= 1 or not string.match(holders[1], '^.+:%-?%d+$') then
    return redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
  end
  holder = holders[1]
end
local ttlMs = redis.call('PTTL', lock)
if placeLeaseMs == 0 then
  return { holder, ttlMs, '0' }
end

-- Returns the error of one that is not permitted.
local function refusal(...)
  local reply = redis.pcall(...)
  return type(reply) == 'table' and reply
end

local time = redis.call('TIME')
local present = redis.call('ZSCORE', line, owner)
local known = redis.call('HGET', places, owner)
if present then
  ticket = tonumber(present)
  -- First: a full memory refuses what takes memory only before anything is written.
  redis.call('PEXPIRE', line, string.format('%.0f', math.max(redis.call('PTTL', line), placeLeaseMs)))
else
  if ticket == 0 then
    -- The time in microseconds, so that it is also behind those who left and will be back.
    local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
    ticket = math.max(time[1] * 1000000 + time[2], (tonumber(last) or 0) + 1)
  end
  redis.call('ZADD', line, string.format('%.0f', ticket), owner)
end
local refused
if not known or tonumber(string.match(known, '^%d+')) <= tonumber(nonce) then
  local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
  local expiresAtMs = string.format('%.0f', nowMs + placeLeaseMs)
  local place = table.concat({ nonce, expiresAtMs, wants, isListening, listensAt, tokenTtl }, ' ')
  refused = refusal('HSET', places, owner, place)
end
for _, key in ipairs({ line, places }) do
  if not refused and redis.call('PTTL', key) < placeLeaseMs then
    refused = refusal('PEXPIRE', key, placeLease)
  end
end
if refused then
  -- As it was before: without one of them it would be no place, or one without an end.
  if not present then
    redis.call('ZREM', line, owner)
  end
  if known then
    redis.pcall('HSET', places, owner, known)
  else
    redis.pcall('HDEL', places, owner)
  end
  return refused
end
return { holder, ttlMs, string.format('%.0f', ticket) }
