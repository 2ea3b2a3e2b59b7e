// Who believes to be inside, kept in Redis by those who do, each until when it may at most. (All on one machine: their clock is
// the server's.)
import type { Redis } from 'ioredis';
import type { PermitHold } from '../../src/index.js';

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

// How many permits are in use, as a Redis counts that knows nothing of semaphores: each who is inside stands there with its permits
// until it leaves, or until it may not believe any more that it holds them.

const ENTER = `
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(ARGV[2]) <= nowMs then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', nowMs)
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
local used = 0
for _, owner in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  used = used + redis.call('HGET', KEYS[2], owner)
end
return used`;

/** Enters; resolves to how many permits are in use then. Redis and all processes go by the clock of one machine. */
export async function enterSection(redis: Redis, name: string, hold: PermitHold): Promise<number> {
  // In this order: a process that is stopped in between believes for longer than it says, never for less.
  const nowMs = Date.now();
  const endsAtMs = Math.floor(nowMs + hold.remaining());
  const keys = [`${name}:inside`, `${name}:weights`];
  return (await redis.eval(ENTER, 2, ...keys, hold.ownerId, endsAtMs, hold.permits)) as number;
}
