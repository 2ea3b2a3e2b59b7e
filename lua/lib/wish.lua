-- A count of -1 says that a client may keep the lock while it has no use for it: asks that client to let go, unless it is our own. `heard`: how
-- many heard it (nil: nobody was asked; -2 or -3: that is the count); `unsaid`: why nobody could be asked.
local heard, unsaid
if fields[2] == '-1' then
  local keeper, number = string.match(holder, '^(.+):(%-?%d+)$')
  if string.match(owner, '^(.+):') ~= keeper then
    -- pcall: without permission for the channel the lock is held, as any other.
    heard = redis.pcall('PUBLISH', 'holdfast_wishes:' .. keeper, number)
    if type(heard) == 'table' then
      heard, unsaid = 0, heard.err
    end
  end
elseif fields[2] == '-2' or fields[2] == '-3' then
  heard = tonumber(fields[2])
end
