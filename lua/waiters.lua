-- Who waits in line for a fair lock, in order. For people: it walks the whole line.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] line (sorted set): owner -> ticket
-- KEYS[3] places (hash): owner -> "<nonce> <expiresAtMs> <wants> <isListening> <listensAt>", of a fenced lock " <tokenTtlMs>" behind it
--
-- Returns the owners (strings) whose places have not lapsed.
-- Error KEYCONFLICT when the hash is no lock, or the line is that of a weighted lock; WRONGTYPE when a key is of another type.
local lock = KEYS[1]
local line = KEYS[2]
local places = KEYS[3]

-- A lock has one owner, which may be a negative number of a Redisson thread. More fields, or one of another form, belong
-- to something else.
local holderCount = redis.call('HLEN', lock)
local holders = holderCount == 1 and redis.call('HKEYS', lock) or {}
if holderCount > 0 and not string.match(holders[1] or '', '^.+:%-?%d+$') then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
end

local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local owners = {}
for _, owner in ipairs(redis.call('ZRANGE', line, 0, -1)) do
  local place = redis.call('HGET', places, owner)
  local expiresAtMs = place and tonumber(string.match(place, '^%d+ (%d+)'))
  if place and not expiresAtMs then
    return redis.error_reply('KEYCONFLICT the line is not that of a fair lock')
  elseif place and expiresAtMs > nowMs then
    owners[#owners + 1] = owner
  end
end
return owners
