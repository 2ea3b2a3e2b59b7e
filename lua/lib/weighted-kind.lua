-- A hash without an end is somebody else's, whatever its fields are called. A read-write lock has more permits than any semaphore, and always
-- the same number.
if lockTtlMs ~= -2 and (not capacity or lockTtlMs == -1) then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a weighted lock')
elseif capacity and (capacity == 2147483648) ~= isReadWrite then
  return redis.error_reply('KEYCONFLICT one is a read-write lock, the other a semaphore')
end
