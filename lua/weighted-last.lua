-- Which of a weighted lock's holders keeps it for longest: whether there is one, and until when somebody has it.
--
-- KEYS[1] lock (hash): "capacity" and "used", in permits; owner -> weight, with a "?" until it is confirmed
-- KEYS[2] leases (sorted set): holder -> expiresAtMs
--
-- Returns {weight (string), endsInMs (integer)} of the holder whose lease ends last; nil when nobody holds it.
local lock = KEYS[1]
local leases = KEYS[2]

local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)

local last = redis.call('ZRANGE', leases, -1, -1, 'WITHSCORES')
if not last[1] or tonumber(last[2]) <= nowMs then
  return false
end
local weight = redis.call('HGET', lock, last[1])
return weight and { string.match(weight, '^%d+'), tonumber(last[2]) - nowMs }
