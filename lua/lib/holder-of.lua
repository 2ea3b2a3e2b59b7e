-- Who holds the lock, by the fields of its hash (false: not exactly one); or nil, and why that is no lock: {err}. A lock has one owner, which may
-- be a negative number of a Redisson thread. More fields, or one of another form, belong to something else.
local function holderOf(fields)
  local holder = fields and string.match(fields[1], '^.+:%-?%d+$')
  if not holder then
    return nil, redis.error_reply('KEYCONFLICT the hash at this key is not a lock')
  end
  return holder
end
