-- Releases a lock to a successor: another caller of the same client, who waits for it; or one that adopts the hold of another process. With a
-- counter the successor gets a fencing token.
-- Safe to send twice and to arrive late: both owners are fresh and never used again once they went, so a copy finds the successor, or neither.
-- A copy uses up a token; none is given twice.
-- The key is never missing in between, so nobody else gets in.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] forced (string): the last owner that was forced out
-- KEYS[3] counter (string): the last fencing token that was given out; only of a fenced lock
-- ARGV[1] owner (string): "<clientId>:<n>"
-- ARGV[2] successor (string): "<clientId>:<n>"
-- ARGV[3] leaseMs (integer, ms): how long the successor keeps the lock without a renewal
-- ARGV[4] tokenTtlMs (integer, ms): how long a token is remembered, beyond what it is ahead of the clock; 0: for ever; only of a fenced lock
-- Returns {'done', its token (string) if it is a fenced lock} when the successor has the lock, by this call or an earlier copy; when neither of
-- the two has it, how it was lost: {'taken'}, {'forced'} or {'deleted'} (also when it expired).
-- Error KEYCONFLICT when the counter is no token; WRONGTYPE when a key is of another type.
local lock, forced, counter = KEYS[1], KEYS[2], KEYS[3]
local owner, successor, leaseMs, tokenTtlMs = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Who has released the lock, though it stays taken, has it no more.
local function has(owner)
  local count = redis.call('HGET', lock, owner)
  return count and count ~= '-2'
end

local isRepeat = not has(owner)
if isRepeat and not has(successor) then
  -- include: ours
  local function howLost(owner)
    -- include: how-lost
  end
  return { howLost(ours('GET', forced) == successor and successor or owner) }
end
local token, rememberMs
if counter then
  -- include: next-token
  -- Before anything is written: there may be something else at the counter's key.
  token, rememberMs = nextToken(counter, tonumber(tokenTtlMs))
  if not token then
    return rememberMs
  end
end
-- include: refusal, set-token
local ttlMs = redis.call('PTTL', lock)
local refused
if isRepeat then
  -- Not shorter: the successor may have extended it since.
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(ttlMs, tonumber(leaseMs))))
  refused = token and setToken(counter, token, rememberMs)
else
  -- The field is not there: this asks whether HDEL is permitted, before anything is written.
  redis.call('HDEL', lock, successor)
  -- The lease first: a full memory refuses what takes memory only before anything is written.
  redis.call('PEXPIRE', lock, leaseMs)
  refused = refusal('HSET', lock, successor, 1) or token and setToken(counter, token, rememberMs)
  redis.call('HDEL', lock, refused and successor or owner)
end
if refused then
  -- include: undo-lease
  return refused
end
return { 'done', token }
