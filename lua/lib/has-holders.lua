-- Whether a hash without an end is a weighted lock that has lost it (PERSIST, or a copy without a time to live): it has holders, and nothing else.
-- Without holders it is somebody else's, whatever its fields are called.
local function hasHolders(lock)
  local isFound = false
  local fields = redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    if string.match(fields[i], '^.+:%-?%d+$') then
      isFound = true
    elseif fields[i] ~= 'capacity' and fields[i] ~= 'used' then
      return false
    end
  end
  return isFound
end
