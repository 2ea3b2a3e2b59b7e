-- Why the hash is no weighted lock of this kind: {err}; nil: it is one, or there is none. A hash without an end is somebody else's, whatever its
-- fields are called. Of a read-write lock there is more than of any semaphore, and always as much.
local READ_WRITE = 2147483648
local function conflictOf(capacity, ttlMs, isReadWrite)
  if ttlMs ~= -2 and (not capacity or ttlMs == -1) then
    return redis.error_reply('KEYCONFLICT the hash at this key is not a weighted lock')
  elseif capacity and (capacity == READ_WRITE) ~= isReadWrite then
    return redis.error_reply('KEYCONFLICT one is a read-write lock, the other a semaphore')
  end
  return nil
end
