-- Writes a fencing token to one master of a Redlock: it is the last one there from now on, if it is larger than the last one so far.
-- Safe to send twice and to arrive late: the last token is never made smaller, and never remembered for less long.
--
-- KEYS[1] counter (string): the last fencing token that was given out
-- ARGV[1] token (string): a whole number, at most 2^53 - 2^40
-- ARGV[2] tokenTtlMs (integer, ms): how long the token is remembered, beyond what it is ahead of the clock; 0: for ever
-- Returns 1 when it was larger than the last one; otherwise that (string), which is as large, or larger, and stays.
-- Error KEYCONFLICT when the counter is no token; WRONGTYPE when the key is of another type.
local counter, token, tokenTtlMs = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- include: set-token

local last = redis.call('GET', counter) or '0'
local number = tonumber(token)
-- Lua counts exactly up to 2^53. What comes within 2^40 of that comes from no clock before the year 2255.
local lastNumber = string.match(last, '^%d+$') and tonumber(last) or 2 ^ 53
if lastNumber > 2 ^ 53 - 2 ^ 40 or number > 2 ^ 53 - 2 ^ 40 then
  return redis.error_reply('KEYCONFLICT the key of the last fencing token holds something else')
end
if lastNumber >= number then
  return last
end

-- It is remembered for longer by the time that it is ahead of the clock, which may have been set back; never for less than the last one still is.
local ttlMs = tokenTtlMs > 0 and redis.call('PTTL', counter) or -1
local rememberMs
if ttlMs ~= -1 then
  local time = redis.call('TIME')
  local aheadMs = math.ceil((number - time[1] * 1000000 - time[2]) / 1000)
  rememberMs = math.max(ttlMs, tokenTtlMs, tokenTtlMs + aheadMs)
end
return setToken(counter, token, rememberMs) or 1
