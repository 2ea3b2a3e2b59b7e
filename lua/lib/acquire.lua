-- Takes the lock for the owner, with a token if there is a counter; or says who holds it.
local isFree = redis.call('EXISTS', lock) == 0
if not isFree and redis.call('HEXISTS', lock, owner) == 0 then
  local fields = redis.call('HLEN', lock) == 1 and redis.call('HKEYS', lock)
  -- include: holder
  return { holder, redis.call('PTTL', lock) }
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
local ttlMs = 0
if isFree then
  redis.call('HSET', lock, owner, 1)
else
  ttlMs = redis.call('PTTL', lock)
end
-- Written even if it ends later already: WAIT asks replicas for what its own connection wrote last, and this is a new one.
local kept = redis.pcall('PEXPIRE', lock, isFree and leaseMs or string.format('%.0f', math.max(ttlMs, tonumber(leaseMs))))
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
return token or 1
