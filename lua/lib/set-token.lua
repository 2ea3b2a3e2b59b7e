-- Writes a token that is remembered for so long (nil: for ever); an {err} if that is refused.
local function setToken(counter, token, rememberMs)
  if rememberMs then
    return redis.pcall('SET', counter, token, 'PX', string.format('%.0f', rememberMs))
  end
  return redis.pcall('SET', counter, token)
end
