-- Whether a hash without an end is a weighted lock that has lost it (PERSIST, or a copy without a time to live): it has holders, and nothing else.
-- All of our owners end with twelve hex digits and a number. Each holds a permit at least, so a hash with more fields is not even read.
local function hasHolders(lock)
  local used = tonumber(redis.call('HGET', lock, 'used') or 'none')
  if not used or redis.call('HLEN', lock) - 2 > used then
    return false
  end
  local isFound = false
  local fields = redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    if string.match(fields[i], '^.+%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$') then
      isFound = true
    elseif fields[i] ~= 'capacity' and fields[i] ~= 'used' then
      return false
    end
  end
  return isFound
end
