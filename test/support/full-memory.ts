// A server whose memory is full, and that evicts nothing.
import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import { rejectionOf } from './clients.js';

/** What a server says that refuses what takes memory. */
export const FULL = /OOM command not allowed/;

export async function fill(redis: Redis): Promise<void> {
  await redis.config('SET', 'maxmemory-policy', 'noeviction');
  await redis.config('SET', 'maxmemory', '1mb');
  await redis.config('SET', 'maxmemory', '1');
  expect(await rejectionOf(redis.set('more', 'x'))).toMatchObject({
    message: expect.stringMatching(/^OOM/) as string,
  });
}

export async function empty(redis: Redis): Promise<void> {
  await redis.config('SET', 'maxmemory', '0');
}
