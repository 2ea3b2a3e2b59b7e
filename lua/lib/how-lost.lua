-- How the owner lost the lock.
if ours('GET', forced) == owner then
  -- pcall: where that is not permitted the word ends by itself.
  redis.pcall('DEL', forced)
  return 'forced'
end
return redis.call('EXISTS', lock) == 1 and 'taken' or 'deleted'
