-- How much longer a key of a weighted lock lives, in ms (-2: there is none). A key that has lost its end gets that of the last lease.
local function ttlOf(key, leases)
  local ttlMs = redis.call('PTTL', key)
  if ttlMs ~= -1 then
    return ttlMs
  end
  -- pcall: a key of another type has no leases.
  local last = redis.pcall('ZRANGE', leases, -1, -1, 'WITHSCORES')[2]
  return math.max(tonumber(last or 0) - nowMs, 0)
end
