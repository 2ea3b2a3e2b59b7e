-- Whether a client that said that it listens to its grants is gone, by the end of its channel's name. Asked before anything is published: the
-- subscribers at a replica are not counted, and would hear a grant that is taken back.
local isGone = {}
local function isDeaf(listensAt)
  if isGone[listensAt] == nil then
    -- pcall: a user without permission for PUBSUB must still be able to hand over.
    local ask = publishGrant == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
    isGone[listensAt] = redis.pcall('PUBSUB', ask, grants .. listensAt)[2] == 0
  end
  return isGone[listensAt]
end
