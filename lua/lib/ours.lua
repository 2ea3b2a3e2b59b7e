-- The reply of a command; false where the key is of another type: that is none of ours, and must neither fail a whole batch nor keep anybody
-- from giving up what he has. Any other error is raised.
local function ours(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    return not string.find(reply.err, 'WRONGTYPE', 1, true) and redis.call(...)
  end
  return reply
end
