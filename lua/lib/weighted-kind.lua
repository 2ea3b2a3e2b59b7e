-- A read-write lock has more permits than any semaphore, and always the same number.
-- include: has-holders
if lockTtlMs ~= -2 and (not capacity or lockTtlMs == -1 and not hasHolders(lock)) then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a weighted lock')
elseif capacity and (capacity == 2147483648) ~= isReadWrite then
  return redis.error_reply('KEYCONFLICT one is a read-write lock, the other a semaphore')
end
