-- The place is as it was before: without one of its keys it would be no place, or one without an end.
if not present then
  redis.pcall('ZREM', line, owner)
end
if former then
  redis.pcall('HSET', places, owner, former)
else
  redis.pcall('HDEL', places, owner)
end
