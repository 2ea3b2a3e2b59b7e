-- The server's time, in seconds and microseconds, and in milliseconds.
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
