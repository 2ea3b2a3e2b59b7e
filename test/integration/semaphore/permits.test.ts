// How a semaphore grants permits: up to its capacity, first come first served, whatever their number.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { Redis } from 'ioredis';
import {
  LockAbortedError,
  LockLostError,
  LockTimeoutError,
  type Holdfast,
  type PermitHold,
} from '../../../src/index.js';
import { eventsOf, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { eventually, settledWithin } from '../../support/time.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { TestSemaphore } from '../../support/weighted-locks.js';

let redis: Redis;
let client: Holdfast;
let other: Holdfast;

beforeAll(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
});

afterAll(() => {
  redis.disconnect();
});

beforeEach(async () => {
  client = newClient({ lockWatchdogTimeout: 30_000 });
  other = newClient({ lockWatchdogTimeout: 30_000 });
  await Promise.all([client.ping(), other.ping()]);
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
});

describe('permits', () => {
  it('are granted up to the capacity, and no further', async () => {
    const semaphore = new TestSemaphore(redis, 3);
    const holds = [
      await semaphore.of(client).acquire(),
      await semaphore.of(other).acquire({ permits: 2 }),
    ];
    expect(await semaphore.of(other).availablePermits()).toBe(0);
    expect(await semaphore.of(client).tryAcquire()).toBeUndefined();
    expect(holds.map(({ permits }) => permits)).toEqual([1, 2]);
    await holds[1]!.release();
    expect(await semaphore.of(other).availablePermits()).toBe(2);
    await holds[0]!.release();
    await semaphore.isGone();
  });

  it('have an owner of their own for each acquisition, even inside a run or a lock', async () => {
    const semaphore = new TestSemaphore(redis, 2).of(client);
    await client.run(async () => {
      await semaphore.withPermits(async (outer) => {
        await semaphore.withPermits(async (inner) => {
          expect(inner.ownerId).not.toBe(outer.ownerId);
          expect(await semaphore.availablePermits()).toBe(0);
          expect(await semaphore.tryAcquire()).toBeUndefined();
        });
      });
    });
    expect(await semaphore.availablePermits()).toBe(2);
  });

  it('take one round trip to acquire, and one to release', async () => {
    const semaphore = new TestSemaphore(redis, 2).of(client);
    await (await semaphore.acquire()).release(); // scripts are loaded
    const commands = await recordCommands(inject('redisUrl'), async () => {
      await (await semaphore.acquire()).release();
    });
    const sent = commands.filter(
      ({ name, args, byScript }) => !byScript && name === 'EVALSHA' && args[2] === semaphore.name,
    );
    expect(sent).toHaveLength(2);
  });

  it('are released when withPermits() ends, even with an error, which is thrown to the caller', async () => {
    const semaphore = new TestSemaphore(redis, 2);
    const failure = new Error('the body’s');
    const body = (): never => {
      throw failure;
    };
    const seen = await rejectionOf(semaphore.of(client).withPermits({ permits: 2 }, body));
    expect(seen).toBe(failure);
    await semaphore.isGone();
    expect(await semaphore.of(client).withPermits(({ permits }) => permits)).toBe(1);
    await semaphore.isGone();
  });

  it('are renewed for as long as they are held', async () => {
    await using short = newClient({ lockWatchdogTimeout: 3_000 });
    const semaphore = new TestSemaphore(redis, 2);
    const hold = await semaphore.of(short).acquire({ permits: 2 });
    for (let renewal = 0; renewal < 5; renewal++) await nextEvent(short, 'renewed'); // longer than a lease
    expect(hold.signal.aborted).toBe(false);
    expect(await semaphore.of(other).tryAcquire()).toBeUndefined();
    await hold.release();
    await semaphore.isGone();
  });

  it('with a lease of their own end with it, and report the loss', async () => {
    const semaphore = new TestSemaphore(redis, 1);
    const lost = nextEvent(client, 'lost');
    const hold = await semaphore.of(client).acquire({ lease: 150 });
    expect(await lost).toMatchObject({ lockName: semaphore.name, lossReason: 'expired' });
    expect(hold.signal.reason).toBeInstanceOf(LockLostError);
    expect(await rejectionOf(hold.release())).toBeInstanceOf(LockLostError);
    const next = await semaphore.of(other).acquire();
    await next.release();
  });

  it('are extended, and never shortened', async () => {
    const semaphore = new TestSemaphore(redis, 1);
    const hold = await semaphore.of(client).acquire({ lease: 5_000 });
    await hold.extend(100);
    expect(hold.remaining()).toBeGreaterThan(3_000);
    await hold.extend(20_000);
    expect(hold.remaining()).toBeGreaterThan(15_000);
    expect(await redis.pttl(semaphore.keys[1])).toBeGreaterThan(15_000);
    await hold.release();
    await semaphore.isGone();
  });

  it('that are lost on the server are reported at the next renewal', async () => {
    await using short = newClient({ lockWatchdogTimeout: 3_000 });
    for (const index of [0, 1] as const) {
      const semaphore = new TestSemaphore(redis, 2);
      const hold = await semaphore.of(short).acquire();
      const lost = nextEvent(short, 'lost');
      await redis.del(semaphore.keys[index]);
      expect(await lost).toMatchObject({ lockName: semaphore.name, lossReason: 'deleted' });
      expect(hold.remaining()).toBe(0);
      // The rest of the semaphore does not count.
      const all = await semaphore.of(other).acquire({ permits: 2 });
      await all.release();
      await semaphore.isGone();
    }
  });
});

describe('the line', () => {
  it('of a semaphore whose holders were deleted blocks nobody, once its clients are gone', async () => {
    const semaphore = new TestSemaphore(redis, 2);
    const [, , line, places] = semaphore.keys;
    await redis.zadd(line, 1, 'gone:1');
    await redis.hset(places, 'gone:1', `w1 1 ${String(Date.now() + 30_000)} 30000 0 1 gone`);
    for (const key of [line, places]) await redis.pexpire(key, 30_000);
    const hold = await semaphore.of(client).tryAcquire({ permits: 2 });
    expect(hold?.permits).toBe(2);
    await hold?.release();
    await semaphore.isGone();
  });

  it('of a semaphore whose holders were deleted is let in when another caller tries', async () => {
    const semaphore = new TestSemaphore(redis, 2);
    const held = await semaphore.of(client).acquire({ permits: 2 });
    const { hold } = await semaphore.join(client);
    await redis.del(semaphore.keys[0], semaphore.keys[1]);
    expect(await semaphore.of(other).tryAcquire({ permits: 2 })).toBeUndefined();
    const next = await settledWithin(hold, 3_000); // a renewal of its place may be 10 s away
    expect(next).toMatchObject({ permits: 1 });
    await (await hold).release();
    await expect(held.release()).rejects.toBeInstanceOf(LockLostError);
    await semaphore.isGone();
  });

  it('is served in the order in which callers came, whatever they want', async () => {
    const semaphore = new TestSemaphore(redis, 4);
    const first = await semaphore.of(client).acquire({ permits: 4 });
    const order: string[] = [];
    const held: PermitHold[] = [];
    const join = async (from: Holdfast, permits: number): Promise<void> => {
      const { hold } = await semaphore.join(from, { permits });
      void hold.then((got) => {
        order.push(String(permits));
        held.push(got);
      });
    };
    for (const [from, permits] of [
      ...[[client, 1] as const, [other, 3] as const, [client, 4] as const],
      ...[[other, 1] as const, [client, 2] as const],
    ])
      await join(from, permits);
    expect(await semaphore.of(client).getWaiters()).toMatchObject(
      [1, 3, 4, 1, 2].map((permits) => ({ permits })),
    );
    await first.release();
    await eventually(() => {
      expect([...order].sort()).toEqual(['1', '3']);
    });
    // Free permits do not go past the large request.
    await held.find(({ permits }) => permits === 3)!.release();
    expect(await semaphore.of(other).tryAcquire()).toBeUndefined();
    await held.find(({ permits }) => permits === 1)!.release();
    await eventually(() => {
      expect(order).toHaveLength(3);
    });
    expect(order[2]).toBe('4');
    await held.find(({ permits }) => permits === 4)!.release();
    await eventually(() => {
      expect(order).toHaveLength(5);
    });
    await Promise.all(held.slice(3).map((hold) => hold.release()));
    await semaphore.isGone();
  });

  it('lets in a waiter that wants a fixed lease, and grants it that lease', async () => {
    const semaphore = new TestSemaphore(redis, 1);
    const holder = await semaphore.of(client).acquire();
    const { hold } = await semaphore.join(other, { lease: 300 });
    const behind = await semaphore.join(client);
    await holder.release();
    const got = await hold;
    expect(got.remaining()).toBeLessThanOrEqual(300);
    const lost = nextEvent(other, 'lost');
    await (await behind.hold).release(); // not before that lease is over
    expect(await lost).toMatchObject({ lossReason: 'expired' });
    await semaphore.isGone();
  });

  it('moves up behind a waiter that times out or aborts', async () => {
    const semaphore = new TestSemaphore(redis, 2);
    const holder = await semaphore.of(client).acquire();
    const { hold: late } = await semaphore.join(other, { permits: 2, wait: 1_500 });
    const aborter = new AbortController();
    const aborted = await semaphore.join(other, { permits: 2, signal: aborter.signal });
    const behind = await semaphore.join(client);
    const error = await rejectionOf(late);
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({ holder: holder.ownerId });
    aborter.abort();
    expect(await rejectionOf(aborted.hold)).toBeInstanceOf(LockAbortedError);
    await (await behind.hold).release();
    await holder.release();
    await semaphore.isGone();
  });

  it('warns of a call inside withPermits() that waits for the permits around it', async () => {
    const semaphore = new TestSemaphore(redis, 3);
    const warnings = eventsOf(client, 'warning');
    const aborter = new AbortController();
    await semaphore.of(client).withPermits({ permits: 2 }, async ({ ownerId }) => {
      const fits = await semaphore.of(client).tryAcquire();
      await fits?.release();
      expect(fits).toBeDefined();
      const { signal } = aborter;
      const nested = rejectionOf(semaphore.of(client).acquire({ permits: 2, signal }));
      await eventually(() => {
        expect(warnings).toMatchObject([{ lockName: semaphore.name, ownerId }]);
      }, 10_000);
      const words = 'inside withPermits(), which holds 2 of the 3 permits, and waits for 2 of them';
      expect(warnings[0]?.message).toMatch(`semaphore "${semaphore.name}" has been waited for`);
      expect(warnings[0]?.message).toContain(words);
      aborter.abort();
      await nested;
      const late = semaphore.of(client).withPermits({ permits: 2, wait: 300 }, () => undefined);
      expect(String(await rejectionOf(late))).toContain(words);
    });
    await semaphore.isGone();
  });

  it('does not warn of withPermits() calls side by side, nor of one that waits for another client', async () => {
    const semaphore = new TestSemaphore(redis, 2);
    const warnings = eventsOf(client, 'warning');
    const held = await semaphore.of(other).acquire();
    const hold = (): Promise<void> =>
      semaphore.of(client).withPermits(() => new Promise((resolve) => setTimeout(resolve, 1_800)));
    const branches = [hold(), hold(), hold()];
    await semaphore.of(client).withPermits(async () => {
      const nested = semaphore.of(client).withPermits({ wait: 1_000 }, () => undefined);
      expect(String(await rejectionOf(nested))).not.toContain('inside withPermits()');
    });
    await Promise.all(branches);
    await held.release();
    expect(warnings).toEqual([]);
  }, 20_000);
});
