-- Takes the lock for the owner, with a token if there is a counter; or says who holds it. With `keptLeaseMs` its client may keep it.
local isFree = redis.call('EXISTS', lock) == 0
local count = not isFree and redis.call('HGET', lock, owner)
if not isFree and (not count or count == '-2') then
  local fields = redis.call('HLEN', lock) == 1 and redis.call('HGETALL', lock)
  -- include: holder, wish
  return { holder, redis.call('PTTL', lock), heard, unsaid }
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
local isKept = false
if keptLeaseMs and isFree then
  -- Whoever listens for a release already has made its wish, or makes none. (pcall: without permission, nobody is known not to listen.)
  local listening = redis.pcall('PUBSUB', numsub, channel)[2]
  isKept = listening ~= nil and listening <= tonumber(own)
elseif keptLeaseMs then
  isKept = count == '-1'
end
local lease = isKept and keptLeaseMs or leaseMs
local ttlMs = 0
if isFree then
  redis.call('HSET', lock, owner, isKept and -1 or 1)
else
  ttlMs = redis.call('PTTL', lock)
end
-- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last, and this is a new one.
local kept = redis.pcall('PEXPIRE', lock, isFree and lease or string.format('%.0f', math.max(ttlMs, tonumber(lease))))
local refused = kept ~= 1 and kept
if token and not refused then
  -- include: set-token
  refused = setToken(counter, token, rememberMs)
end
if refused then
  -- Not permitted: a lock without an end would stay for ever, and one without a token guards nothing.
  if isFree then
    redis.call('HDEL', lock, owner)
  end
  -- include: undo-lease
  return refused
end
return token or isKept and 2 or 1
