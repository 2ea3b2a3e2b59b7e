-- Gives up what the owner has of the lock, and tells those who wait.
if redis.call('HDEL', lock, owner) == 0 then
  return 0
end
-- pcall: a user without permission for the channel must still be able to release.
local told = publish ~= '' and redis.pcall(publish, channel, '0') or 0
return type(told) == 'table' and told.err or 1 + told
