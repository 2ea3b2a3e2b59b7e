// A document in Redis that refuses whoever has lost the lock without noticing.
import type { Redis } from 'ioredis';
import type { Holdfast } from '../../src/index.js';

/** Writes unless somebody with a larger token has written. */
const WRITE = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if seen > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'text', ARGV[2])
return 1`;

export async function edit(
  holdfast: Holdfast,
  redis: Redis,
  id: string,
  change: (text: string) => Promise<string>,
): Promise<void> {
  await holdfast.getFencedLock(`lock:${id}`).withLock(async ({ token }) => {
    const text = (await redis.hget(id, 'text')) ?? '';
    const changed = await change(text); // may take longer than anybody expects
    const isWritten = await redis.eval(WRITE, 1, id, String(token), changed);
    if (!isWritten) throw new Error(`${id} not written: ${token} is not the latest token`);
  });
}
