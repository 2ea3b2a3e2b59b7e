-- What a lock of any kind is, who holds it and who waits in its line. For people: it walks both, but at most `most` of each.
--
-- KEYS[1] lock (hash): owner -> hold count; or of a weighted lock "capacity" and "used", and owner -> weight, with marks behind it
-- KEYS[2] leases (sorted set): of a weighted lock, holder -> expiresAtMs
-- KEYS[3] line (sorted set): owner -> ticket
-- KEYS[4] places (hash): owner -> "<nonce> <expiresAtMs> …", of a weighted lock "w<weight> <nonce> <expiresAtMs> …"
-- KEYS[5] counter (string): the last fencing token
-- ARGV[1] channel (string): the unlock channel
-- ARGV[2] numsub (string): "NUMSUB", or "SHARDNUMSUB" if the channel is a sharded one
-- ARGV[3] most (integer): how many holders and waiters are listed at most
-- Returns nil when there is no lock and no line; else {capacity (integer; 0: no weighted lock), holders (array: owner, leftMs (integer, -1: no
-- expiry), count (-1: its client keeps it, perhaps without using it; -2: released, but taken for a while; -3: exported) or weight with its
-- marks (string) of each), waiters (array: owner, leftMs (integer),
-- weight (string) or '' of each), isCut (0 or 1), listeners (integer: clients that listen for a release), token (string) or ''}, without
-- holders and waiters that have lapsed.
-- Error KEYCONFLICT when the hash is no lock; WRONGTYPE when a key is of another type.
local lock, leases, line, places, counter = unpack(KEYS)
local channel, numsub, most = unpack(ARGV)

-- include: now
local fieldCount = redis.call('HLEN', lock)
local capacity = fieldCount > 1 and redis.call('HGET', lock, 'capacity')
local holders = {}
local isCut = 0
-- include: has-holders
if capacity and (redis.call('PTTL', lock) ~= -1 or hasHolders(lock)) then
  local live = redis.call('ZRANGEBYSCORE', leases, '(' .. string.format('%.0f', nowMs), '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #live, 2 do
    local weight = redis.call('HGET', lock, live[i])
    if weight then
      holders[#holders + 1] = live[i]
      holders[#holders + 1] = live[i + 1] - nowMs
      holders[#holders + 1] = weight
    end
  end
  isCut = #live / 2 == tonumber(most) and 1 or 0
elseif fieldCount > 0 then
  local fields = fieldCount == 1 and redis.call('HGETALL', lock)
  -- include: holder
  local count = fields[2]
  if not string.match(count, '^%d+$') and count ~= '-1' and count ~= '-2' and count ~= '-3' then
    return redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
  end
  holders = { holder, redis.call('PTTL', lock), count }
end

local waiters = {}
local owners = redis.call('ZRANGE', line, 0, string.format('%.0f', most - 1))
for _, owner in ipairs(owners) do
  local place = redis.call('HGET', places, owner) or ''
  local weight, expiresAtMs = string.match(place, '^w(%d+) %d+ (%d+)')
  expiresAtMs = expiresAtMs or string.match(place, '^%d+ (%d+)')
  if expiresAtMs and tonumber(expiresAtMs) > nowMs then
    waiters[#waiters + 1] = owner
    waiters[#waiters + 1] = expiresAtMs - nowMs
    waiters[#waiters + 1] = weight or ''
  end
end
if #owners == tonumber(most) then
  isCut = 1
end

if #holders == 0 and #waiters == 0 then
  return false
end
local listening = redis.call('PUBSUB', numsub, channel)
local token = redis.call('GET', counter)
return { tonumber(capacity or 0), holders, waiters, isCut, listening[2], token or '' }
