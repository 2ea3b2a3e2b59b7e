-- Writes a token that is remembered for so long (nil: for ever); the error if that is refused.
local function setToken(counter, token, rememberMs)
  local ms = rememberMs and string.format('%.0f', rememberMs)
  local reply = ms and redis.pcall('SET', counter, token, 'PX', ms) or redis.pcall('SET', counter, token)
  return reply.err and reply or nil
end
