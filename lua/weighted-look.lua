-- How many permits a weighted lock has, the owners that hold them, and those that wait in line, in order. For debugging: it walks them all.
--
-- KEYS[1] lock (hash): "capacity" and "used", in permits; owner -> weight, with marks behind it, as in weighted-hand-over.lua
-- KEYS[2] leases (sorted set): holder -> expiresAtMs
-- KEYS[3] line (sorted set): owner -> ticket
-- KEYS[4] places (hash): owner -> "w<weight> <nonce> <expiresAtMs> <leaseMs> <isFixed> <isListening> <listensAt>"
-- KEYS[5] permits (string): the capacity that was set, above what is declared
-- ARGV[1] declared (integer): the capacity that the client takes the lock to have
-- Returns {capacity (integer), holders (array: owner, weight (string), endsInMs (integer) of each), waiters (array: owner, weight (string)
-- of each)} of those that have not lapsed.
-- Error KEYCONFLICT when the hash is no weighted lock, or one of the other kind, or what was set is no capacity; WRONGTYPE when a key is of
-- another type.
local lock, leases, line, places, permits = unpack(KEYS)
local declared = tonumber(ARGV[1])

-- include: now
local isReadWrite = declared == 2147483648
local capacity = tonumber(redis.call('HGET', lock, 'capacity'))
local lockTtlMs = redis.call('PTTL', lock)
-- include: weighted-kind
capacity = capacity or redis.call('GET', permits) or declared
if not string.match(capacity, '^%d+$') then
  return redis.error_reply('KEYCONFLICT the key of the capacity that was set holds something else')
end

local holders = {}
local live = redis.call('ZRANGEBYSCORE', leases, '(' .. string.format('%.0f', nowMs), '+inf', 'WITHSCORES')
for i = 1, #live, 2 do
  local weight = redis.call('HGET', lock, live[i])
  if weight then
    holders[#holders + 1] = live[i]
    holders[#holders + 1] = string.match(weight, '^%d+')
    holders[#holders + 1] = live[i + 1] - nowMs
  end
end

local waiters = {}
for _, owner in ipairs(redis.call('ZRANGE', line, 0, -1)) do
  local place = redis.call('HGET', places, owner) or ''
  local weight, expiresAtMs = string.match(place, '^w(%d+) %d+ (%d+) ')
  if weight and tonumber(expiresAtMs) > nowMs then
    waiters[#waiters + 1] = owner
    waiters[#waiters + 1] = weight
  end
end
return { tonumber(capacity), holders, waiters }
