-- The owner's place in line, and its ticket: the one it has or had, or else the time in microseconds, so that it is behind the last in line, and
-- behind owners that left and will be back.
local present = redis.call('ZSCORE', line, owner)
local former = redis.call('HGET', places, owner)
if present then
  ticket = tonumber(present)
elseif ticket == 0 then
  local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
  ticket = math.max(time[1] * 1000000 + time[2], (tonumber(last) or 0) + 1)
end
