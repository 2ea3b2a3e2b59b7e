// The recipes of the how-to pages that need no other package do what they say.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it, vi, type Mock } from 'vitest';
import { Holdfast, LockLostError, LockTimeoutError } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { cached } from '../../recipes/cache.js';
import { type Lead, standForElection } from '../../recipes/leader.js';
import { outcomeOf } from '../../recipes/outcome.js';
import { type Job, order, work } from '../../recipes/pass-on.js';
import { callAtRate } from '../../recipes/rate-limit.js';
import { newClient } from '../../support/clients.js';
import { uniqueName } from '../../support/unique-name.js';

describe('the recipe that passes a hold on', () => {
  it('keeps the order taken from the request until the worker has done it', async () => {
    await using web = newClient();
    await using worker = newClient();
    const id = uniqueName();
    const queue: Job[] = [];
    const enqueue = (job: Job): Promise<void> => {
      queue.push(job);
      return Promise.resolve();
    };
    expect(await order(web, id, enqueue)).toBe(true);
    expect(await order(web, id, enqueue)).toBe(false);
    const [job] = queue;
    await work(worker, job!, async (done, hold) => {
      expect(done).toBe(id);
      expect(hold.remaining()).toBeGreaterThan(0);
      expect(await order(web, id, enqueue)).toBe(false);
    });
    await expect(work(worker, job!, () => Promise.resolve())).rejects.toThrow(LockLostError);
    expect(await order(web, id, enqueue)).toBe(true);
    await work(worker, queue[1]!, () => Promise.resolve());
  });
});

describe('the recipe for leader election', () => {
  it('has one leader, and another one with a larger token when that one stops', async () => {
    const office = uniqueName('office');
    const terms: { name: string; token: bigint }[] = [];
    let [leading, most] = [0, 0];
    const candidates = ['a', 'b', 'c'].map((name) => {
      const holdfast = new Holdfast({ redis: inject('redisUrl') });
      const stop = new AbortController();
      const lead: Lead = async ({ token }, signal) => {
        terms.push({ name, token });
        most = Math.max(most, ++leading);
        await once(signal, 'abort');
        leading--;
      };
      return { name, holdfast, stop, done: standForElection(holdfast, office, lead, stop.signal) };
    });
    try {
      for (const count of [1, 2, 3]) {
        await expect.poll(() => terms.length, { timeout: 10_000 }).toBe(count);
        candidates.find(({ name }) => name === terms.at(-1)!.name)!.stop.abort();
      }
      await Promise.all(candidates.map(({ done }) => done));
      expect(new Set(terms.map(({ name }) => name)).size).toBe(3);
      expect(terms.map(({ token }) => token)).toEqual(terms.map(({ token }) => token).sort());
      expect(most).toBe(1);
    } finally {
      for (const { stop } of candidates) stop.abort();
      await Promise.all(candidates.map(({ holdfast }) => holdfast.close()));
    }
  });

  it('notifies a leader that has lost the lock, and lets it run for leader again', async () => {
    const told = vi.spyOn(console, 'error').mockReturnValue();
    const office = uniqueName('office');
    await using holdfast = newClient();
    const stop = new AbortController();
    const ends: unknown[] = [];
    let terms = 0;
    const lead: Lead = async (hold, signal) => {
      terms++;
      await once(signal, 'abort');
      ends.push(signal.reason);
      hold.assertHeld();
    };
    const done = standForElection(holdfast, office, lead, stop.signal);
    try {
      await expect.poll(() => terms, { timeout: 10_000 }).toBe(1);
      await holdfast.getFencedLock(office).forceUnlock();
      await expect.poll(() => terms, { timeout: 10_000 }).toBe(2);
      expect(ends).toEqual([expect.any(LockLostError)]);
      expect(told).toHaveBeenCalledWith(`not the leader of ${office}:`, expect.any(LockLostError));
    } finally {
      stop.abort();
      await done;
      told.mockRestore();
    }
  });
});

describe('the recipe for leader election, while Redis is down', () => {
  it('has no leader when the lease is over, and one when Redis is back', async () => {
    const told = vi.spyOn(console, 'error').mockReturnValue();
    const redis = new MemoryRedis();
    await using holdfast = new Holdfast({ redis, lockWatchdogTimeout: 900, wait: Infinity });
    holdfast.on('error', () => undefined);
    const stop = new AbortController();
    let [terms, leading] = [0, 0];
    const lead: Lead = async (_hold, signal) => {
      terms++;
      leading++;
      await once(signal, 'abort');
      leading--;
    };
    const done = standForElection(holdfast, 'office', lead, stop.signal);
    try {
      await expect.poll(() => leading).toBe(1);
      redis.down();
      await expect.poll(() => leading).toBe(0);
      redis.up();
      await expect.poll(() => leading).toBe(1);
      expect(terms).toBe(2);
      expect(told).toHaveBeenCalledWith('not the leader of office:', expect.any(LockLostError));
    } finally {
      stop.abort();
      await done;
      told.mockRestore();
    }
  });
});

describe('the cache recipe', () => {
  let redis: Redis;
  beforeAll(async () => {
    redis = new Redis(inject('redisUrl'));
    await redis.ping();
  });
  afterAll(() => {
    redis.disconnect();
  });

  /** A load that takes a while. */
  const slowly = (value: string): Mock<() => Promise<string>> => vi.fn(() => sleep(100, value));

  it('loads a missing value once for all callers of all processes', async () => {
    const key = uniqueName('cached');
    await using one = new Holdfast({ redis: inject('redisUrl') });
    await using other = new Holdfast({ redis: inject('redisUrl') });
    const load = slowly('value');
    const caches = [one, other].map((holdfast) => cached(holdfast, redis, load));
    const values = await Promise.all(Array.from({ length: 40 }, (_, i) => caches[i % 2]!(key)));
    expect(new Set(values)).toEqual(new Set(['value']));
    expect(load).toHaveBeenCalledTimes(1);
    await redis.del(key);
  });

  it('loads again after a failed load', async () => {
    const key = uniqueName('cached');
    await using holdfast = new Holdfast({ redis: inject('redisUrl') });
    const load = vi.fn(() => Promise.resolve('value'));
    load.mockRejectedValueOnce(new Error('the database is away'));
    const get = cached(holdfast, redis, load);
    await expect(Promise.all([get(key), get(key)])).rejects.toThrow('the database is away');
    expect(await get(key)).toBe('value');
    expect(load).toHaveBeenCalledTimes(2);
    await redis.del(key);
  });

  it('answers with an old value while one caller refreshes it, even inside a hold', async () => {
    const key = uniqueName('cached');
    await using one = new Holdfast({ redis: inject('redisUrl') });
    await using other = new Holdfast({ redis: inject('redisUrl') });
    const load = slowly('new');
    const [get, getThere] = [one, other].map((holdfast) => cached(holdfast, redis, load));
    await redis.set(key, 'old', 'PX', 10_000);
    await one.run(async () => {
      const values = await Promise.all([get!(key), get!(key), getThere!(key), getThere!(key)]);
      expect(values).toEqual(Array(4).fill('old'));
    });
    await expect.poll(() => get!(key), { timeout: 5_000 }).toBe('new');
    await expect.poll(() => one.getLock(`load:${key}`).isLocked()).toBe(false);
    expect(load).toHaveBeenCalledTimes(1);
    await redis.del(key);
  });
});

describe('the recipe for a rate limit', () => {
  it('begins at most ten calls in any second, over all processes, and answers at once', async () => {
    const keyPrefix = `${uniqueName('rate')}:`;
    await using one = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
    await using other = new Holdfast({ redis: inject('redisUrl'), keyPrefix });
    const begun: number[] = [];
    const took: number[] = [];
    await Promise.all(
      Array.from({ length: 25 }, async (_, i) => {
        const answer = await callAtRate(i % 2 ? one : other, () =>
          Promise.resolve(begun.push(performance.now())),
        );
        took.push(performance.now() - begun[answer - 1]!);
      }),
    );
    const apart = begun.slice(10).map((at, i) => at - begun[i]!);
    expect(Math.min(...apart)).toBeGreaterThan(990); // a timer may be a little early
    expect(Math.min(...took)).toBeLessThan(500);
    const partner = one.getSemaphore('rate:partner', { permits: 10 });
    await expect.poll(() => partner.availablePermits(), { timeout: 5_000 }).toBe(10);
  });
});

describe('the recipe for outcomes', () => {
  it('knows what was done, what was not begun, and what is uncertain', async () => {
    await using holdfast = newClient();
    await using other = newClient();
    const lock = holdfast.getLock(uniqueName('outcome'));
    const forced = async (): Promise<boolean> => await other.getLock(lock.name).forceUnlock();

    expect(await outcomeOf(lock, {}, () => Promise.resolve(5))).toEqual({
      state: 'done',
      result: 5,
    });
    const theirs = await other.getLock(lock.name).acquire();
    expect(await outcomeOf(lock, { wait: 0 }, () => Promise.resolve(5))).toEqual({
      state: 'not begun',
      error: expect.any(LockTimeoutError) as unknown,
    });
    await theirs.release();
    expect(
      await outcomeOf(lock, {}, async () => {
        await forced();
        return 5;
      }),
    ).toEqual({ state: 'done', result: 5, error: expect.any(LockLostError) as unknown });
    expect(
      await outcomeOf(lock, {}, async ({ signal }) => {
        await forced();
        await sleep(60_000, undefined, { signal });
      }),
    ).toMatchObject({ state: 'not known', error: { name: 'AbortError' } });
    // If another lock that the work needs was not free, that does not show that nothing was done.
    const inner = other.getLock(uniqueName('outcome'));
    await using hold = await inner.acquire();
    expect(
      await outcomeOf(lock, {}, async () => {
        await holdfast.getLock(hold.lockName).withLock({ wait: 0 }, () => randomUUID());
      }),
    ).toEqual({ state: 'not known', error: expect.any(LockTimeoutError) as unknown });
  });
});
