-- Who holds the lock, by the fields of its hash (false: not exactly one). A lock has one owner, which may be a negative number of a Redisson
-- thread. More fields, or one of another form, belong to something else.
local holder = fields and string.match(fields[1], '^.+:%-?%d+$')
if not holder then
  return redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
end
