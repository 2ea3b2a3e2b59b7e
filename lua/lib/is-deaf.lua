-- Whether a client that said that it listens to its grants is gone, by what its channel ends with. Asked before anything is published, since those
-- who listen at a replica hear what no count counts: a grant that is taken back would be heard.
local isGone = {}
local function isDeaf(listensAt)
  if isGone[listensAt] == nil then
    -- pcall: a user without permission for PUBSUB must still be able to hand over.
    local ask = publishGrant == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
    isGone[listensAt] = redis.pcall('PUBSUB', ask, grants .. listensAt)[2] == 0
  end
  return isGone[listensAt]
end
