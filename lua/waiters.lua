-- The owners that wait in line for a fair lock, in order. For debugging: it walks the whole line.
--
-- KEYS[1] lock (hash): owner -> hold count
-- KEYS[2] line (sorted set): owner -> ticket
-- KEYS[3] places (hash): owner -> "<nonce> <expiresAtMs> <wants> <isListening> <listensAt>", of a fenced lock " <tokenTtlMs>" behind it
-- Returns the owners (strings) whose places have not lapsed.
-- Error KEYCONFLICT when the hash is no lock, or the line is that of a weighted lock; WRONGTYPE when a key is of another type.
local lock, line, places = unpack(KEYS)

local holderCount = redis.call('HLEN', lock)
if holderCount > 0 then
  local fields = holderCount == 1 and redis.call('HGETALL', lock)
  -- include: holder
end

-- include: now
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
