-- The error of a command that is refused, or nil.
local function refusal(...)
  local reply = redis.pcall(...)
  return type(reply) == 'table' and reply.err and reply or nil
end
