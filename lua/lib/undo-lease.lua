-- The lease ends when it would have ended before.
if ttlMs > 0 then
  redis.call('PEXPIRE', lock, string.format('%.0f', ttlMs))
end
