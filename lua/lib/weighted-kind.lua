-- A hash without an end is somebody else's, whatever its fields are called. Of a read-write lock there is more than of any semaphore, and always
-- as much.
if lockTtlMs ~= -2 and (not capacity or lockTtlMs == -1) then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a weighted lock')
elseif capacity and (capacity == 2147483648) ~= isReadWrite then
  return redis.error_reply('KEYCONFLICT one is a read-write lock, the other a semaphore')
end
