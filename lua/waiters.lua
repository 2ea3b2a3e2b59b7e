-- Who waits in line for a fair lock, in order. For people: it walks the whole line.
--
-- KEYS[1] line (sorted set): owner -> ticket
-- KEYS[2] places (hash): owner -> "<nonce> <expiresAtMs> <wants> <isListening> <listensAt>", of a fenced lock " <tokenTtlMs>" behind it
--
-- Returns the owners (strings) whose places have not lapsed.
-- Error KEYCONFLICT when the line is that of a weighted lock; WRONGTYPE when a key is of another type.
local line = KEYS[1]
local places = KEYS[2]

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
