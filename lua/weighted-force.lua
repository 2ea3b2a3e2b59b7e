-- Puts out the holders of a read-write lock that have so many permits, or one holder of any weighted lock, also one that has released it while it
-- stays taken; and leaves word for them. The sender then lets in the next in line.
-- The word is a key of its own. It ends with the last of the leases that it cut short, or when all their holders must have asked.
-- It publishes "<n>,<n> forced" on holdfast_wishes:<clientId>, once for each client: the client then asks whether these owners still have the lock.
--
-- KEYS[1] lock (hash): "capacity" and "used", in permits; owner -> weight, with marks behind it, as in weighted-hand-over.lua
-- KEYS[2] leases (sorted set): holder -> expiresAtMs
-- KEYS[3] line (sorted set): owner -> ticket
-- KEYS[4] forced (hash): owner that was put out -> 1
-- ARGV[1] least (integer): how many permits those who are put out have, at least
-- ARGV[2] most (integer): the same, at most
-- ARGV[3] wordMs (integer, ms): how long to leave word at most
-- ARGV[4] only (string): the owner that is put out, whatever it has; left out: all who have so many permits
-- Returns the owners that were put out (array of strings).
-- Error KEYCONFLICT when the hash is no weighted lock, or, unless one owner is put out, a semaphore; WRONGTYPE when a key is of another type.
local lock, leases, line, forced = unpack(KEYS)
local least, most, wordMs, only = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

-- include: now, whole

-- How many owners go into one command.
local MANY = 500

local known = redis.call('HMGET', lock, 'capacity', 'used')
local capacity = tonumber(known[1])
local isReadWrite = not only or capacity == 2147483648
local lockTtlMs = capacity and 0 or redis.call('PTTL', lock)
-- include: weighted-kind
if not capacity then
  return {}
end

local used = tonumber(known[2])
local out, batches, words = {}, {}, {}
local lastEndMs = nowMs
local live = redis.call('ZRANGEBYSCORE', leases, '(' .. whole(nowMs), '+inf', 'WITHSCORES')
for i = 1, #live, 2 do
  local weight = tonumber(string.match(redis.call('HGET', lock, live[i]) or '', '^%d+'))
  if weight and (not only or only == live[i]) and weight >= least and weight <= most then
    used = used - weight
    lastEndMs = math.max(lastEndMs, tonumber(live[i + 1]))
    if #out % MANY == 0 then
      batches[#batches + 1] = {}
      words[#words + 1] = {}
    end
    out[#out + 1] = live[i]
    table.insert(batches[#batches], live[i])
    table.insert(words[#words], live[i])
    table.insert(words[#words], 1)
  end
end
if #out == 0 then
  return out
end
-- Asked before anything is written, as it may be denied.
local isIdle = used == 0 and redis.call('EXISTS', line) == 0

-- Writes that change nothing: from here on they are known to be permitted.
redis.call('ZREM', leases, '')
redis.call('HDEL', lock, '')
local untilMs = math.max(nowMs + math.min(lastEndMs - nowMs, wordMs), nowMs + redis.call('PTTL', forced))
-- First: a full memory refuses what takes memory only before anything is written.
for _, batch in ipairs(words) do
  redis.call('HSET', forced, unpack(batch))
end
local refused = redis.pcall('PEXPIREAT', forced, whole(untilMs))
if type(refused) == 'table' then
  for _, batch in ipairs(batches) do
    redis.pcall('HDEL', forced, unpack(batch))
  end
  return refused
end
redis.call('HSET', lock, 'used', whole(used))
for _, batch in ipairs(batches) do
  redis.call('ZREM', leases, unpack(batch))
  redis.call('HDEL', lock, unpack(batch))
end
if isIdle then
  redis.call('HDEL', lock, 'used', 'capacity')
end
-- One message a client: it asks whether its owners still have the lock. pcall: a user without permission must still be able to force.
local clients, numbers = {}, {}
for _, owner in ipairs(out) do
  local client, number = string.match(owner, '^(.+):(%-?%d+)$')
  if client and not numbers[client] then
    clients[#clients + 1] = client
    numbers[client] = {}
  end
  if client then
    table.insert(numbers[client], number)
  end
end
for _, client in ipairs(clients) do
  redis.pcall('PUBLISH', 'holdfast_wishes:' .. client, table.concat(numbers[client], ',') .. ' forced')
end
return out
