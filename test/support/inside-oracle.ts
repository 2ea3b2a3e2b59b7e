// Who believes to be inside what a read-write lock guards, kept in Redis by those who do, each until when it may at most. (All on one
// machine: their clock is the server's.)

/** Those inside, by until when; how often somebody met somebody there whom it must not; and the last such meeting. */
export function insideKeys(name: string): string[] {
  return [`${name}:inside`, `${name}:meetings`, `${name}:meeting`];
}

/** ARGV: who ("R <owner>" or "W <owner>"), until when (ms since 1970). */
export const COME_IN = `
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(ARGV[2]) <= nowMs then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', nowMs)
for _, other in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local isWriting = string.sub(other, 1, 1) == 'W' or string.sub(ARGV[1], 1, 1) == 'W'
  if isWriting and string.sub(other, 3) ~= string.sub(ARGV[1], 3) then
    redis.call('INCR', KEYS[2])
    redis.call('SET', KEYS[3], ARGV[1] .. ' met ' .. other)
  end
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1`;

export const GO_OUT = `return redis.call('ZREM', KEYS[1], ARGV[1])`;
