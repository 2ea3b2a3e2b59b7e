// Tokens of a server whose wall clock is set forward and back: they still grow, as long as the counter exists.
import { Redis } from 'ioredis';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ServerClock } from '../../chaos/stage/server.js';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { counterOf, expectGrowing, FENCED_KINDS, passThrough } from '../../support/fenced-locks.js';
import { startRedisProcess, topologiesUnavailable } from '../../support/redis-server.js';

const HOUR_MS = 3_600_000;
const TTL_MS = 60_000;

const unavailable = topologiesUnavailable ?? ServerClock.unavailable;
if (unavailable !== undefined) console.log(`clock.test.ts: skipped: ${unavailable}`);

describe.skipIf(unavailable)('a server whose wall clock is set forward and back', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-step-'));
  });

  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  it.each(FENCED_KINDS)('issues larger and larger tokens ($title)', async ({ options }) => {
    const clock = (await ServerClock.create(folder))!;
    await using server = await startRedisProcess({ env: clock.env });
    const redis = new Redis(server.url);
    const long = { redis: server.url, lockWatchdogTimeout: 60_000, commandTimeout: 10_000 };
    await using one = newClient(long);
    await using two = newClient(long);
    const lock = one.getFencedLock('job', { ...options, tokenTtl: TTL_MS });
    const theirs = two.getFencedLock('job', { ...options, tokenTtl: TTL_MS });
    const tokens = [await passThrough(lock)];
    for (const aheadMs of [HOUR_MS, 0, 2 * HOUR_MS, HOUR_MS, 0]) {
      await clock.step(aheadMs);
      tokens.push(await passThrough(lock), await passThrough(theirs));
      const hold = await lock.acquire();
      const waiting = nextEvent(two, 'waiting');
      const next = theirs.acquire();
      await waiting;
      await hold.release();
      const taken = await next;
      tokens.push(hold.token, taken.token);
      await taken.release();
    }
    // The counter is kept until the clock reaches it again, and for tokenTtl after that.
    const leftMs = await redis.pttl(counterOf('job'));
    expect(leftMs).toBeGreaterThan(2 * HOUR_MS + TTL_MS - 30_000);
    // Then it is forgotten, and the time is past it.
    await clock.step(leftMs + 1_000);
    expect(await lock.getToken()).toBeUndefined();
    tokens.push(await passThrough(theirs));
    expectGrowing(tokens);
    redis.disconnect();
  });

  it.each(FENCED_KINDS)(
    'issues no token after the year 2255, reports it, and changes nothing ($title)',
    async ({ options }) => {
      const clock = (await ServerClock.create(folder))!;
      await using server = await startRedisProcess({ env: clock.env });
      const redis = new Redis(server.url);
      await using client = newClient({ redis: server.url, lockWatchdogTimeout: 60_000 });
      const lock = client.getFencedLock('job', { ...options, tokenTtl: Infinity });
      const before = await passThrough(lock);
      await clock.step(230 * 365 * 24 * HOUR_MS);
      for (const call of [() => lock.acquire(), () => lock.tryLock(), () => lock.acquire()])
        expect(await rejectionOf(call())).toMatchObject({
          code: 'REDIS_UNAVAILABLE',
          message: expect.stringContaining('past the year 2255') as string,
        });
      expect(await redis.keys('*')).toEqual([counterOf('job')]);
      expect(await redis.get(counterOf('job'))).toBe(String(before));
      await clock.step(0);
      expectGrowing([before, await passThrough(lock)]);
      redis.disconnect();
    },
  );
});
