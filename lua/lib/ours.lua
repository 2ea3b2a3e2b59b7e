-- The reply of a command; false if the key is of another type: such a key is not ours, and must neither fail a whole batch nor keep an owner
-- from giving up what it has. Any other error is raised.
local function ours(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    return not string.find(reply.err, 'WRONGTYPE', 1, true) and redis.call(...)
  end
  return reply
end
