// `replicas: n` and locks of all kinds: everything on which a holder relies further counts only when replicas know it.
import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import {
  UnavailableError,
  type AcquireOptions,
  type Hold,
  type Holdfast,
  type HoldfastOptions,
} from '../../../src/index.js';
import { eventsOf, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { replicatedPerTest } from '../../support/failovers.js';
import { TestSemaphore } from '../../support/weighted-locks.js';
import { inTime, settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

/** The common part of holds of permits and of locks. */
type Held = Omit<Hold, 'run' | 'token'>;
type Acquire = (client: Holdfast, name: string, options?: AcquireOptions) => Promise<Held>;

const acquirePermits: Acquire = (client, name, options) =>
  client.getSemaphore(name, { permits: 2 }).acquire({ ...options, permits: 2 });
const plain: Acquire = (client, name, options) => client.getLock(name).acquire(options);
const fair: Acquire = (client, name, options) => client.getFairLock(name).acquire(options);
const read: Acquire = (client, name, options) =>
  client.getReadWriteLock(name).readLock().acquire(options);
const write: Acquire = (client, name, options) =>
  client.getReadWriteLock(name).writeLock().acquire(options);

/** How each is acquired, and how another caller is in its way. */
const KINDS: [kind: string, acquire: Acquire, block: Acquire][] = [
  ['a lock', plain, plain],
  ['a fair lock', fair, fair],
  ['permits', acquirePermits, acquirePermits],
  ['a read lock', read, write],
  ['a write lock', write, read],
];

const long = { lockWatchdogTimeout: 30_000, commandTimeout: 10_000 };
const short = { lockWatchdogTimeout: 2_000, commandTimeout: 5_000 };

/** How long a server keeps this hold, in milliseconds; NaN: it has none. */
async function keptMs(server: Redis, { lockName, ownerId }: Held): Promise<number> {
  const [weight, endsAtMs, [seconds, micros], ttlMs] = await Promise.all([
    server.hget(lockName, ownerId),
    server.zscore(`holdfast_leases:{${lockName}}`, ownerId),
    server.time(),
    server.pttl(lockName),
  ]);
  const nowMs = Number(seconds) * 1_000 + Number(micros) / 1_000;
  if (weight === null) return Number.NaN;
  return endsAtMs === null ? ttlMs : Math.min(Number(endsAtMs) - nowMs, ttlMs);
}

describe.skipIf(topologiesUnavailable)('with a replica that must acknowledge', () => {
  const present = replicatedPerTest({ delayMs: 30 });

  function connect(options: Partial<HoldfastOptions> = {}): Holdfast {
    const redis = present().servers.master.url;
    return newClient({ redis, replicas: 1, ...long, ...options });
  }

  /** As long as the holder relies on it, minus the time of the query. */
  async function isKnown(hold: Held): Promise<void> {
    const reliedOnMs = hold.remaining();
    expect(reliedOnMs).toBeGreaterThan(0);
    const startedAtMs = performance.now();
    const knownMs = await keptMs(present().replica, hold);
    expect(knownMs + performance.now() - startedAtMs).toBeGreaterThanOrEqual(reliedOnMs);
  }

  async function leavesNothing(name: string): Promise<void> {
    await expect.poll(() => present().master.keys(`*${name}*`)).toEqual([]);
  }

  describe.each(KINDS)('%s', (_kind, acquire, block) => {
    it.each([{}, { lease: 5_000 }])(
      'is known to the replica when it is acquired (%o)',
      async (options) => {
        await using client = connect();
        await using hold = await acquire(client, uniqueName(), options);
        await isKnown(hold);
      },
    );

    it('is undone when the replica does not know it, with an error that says so; the waiter behind continues', async () => {
      const { servers, master } = present();
      await using client = connect({ commandTimeout: 1_500 });
      await using other = connect({ replicas: 0 });
      const name = uniqueName();
      await client.ping();
      await servers.replicas[0]!.pause();
      const refused = rejectionOf(settledWithin(acquire(client, name), 5_000));
      await expect.poll(() => master.exists(name)).toBe(1);
      const behind = block(other, name);
      const error = await refused;
      expect(error).toBeInstanceOf(UnavailableError);
      expect(String(error)).toContain('0 of 1 replicas acknowledged it');
      await (await behind).release();
      await leavesNothing(name);
    });

    it.each([{}, { lease: 5_000 }])(
      'is known to the replica when it is acquired from the line (%o)',
      async (options) => {
        await using first = connect();
        await using second = connect();
        const name = uniqueName();
        const before = await block(first, name);
        const waiting = nextEvent(second, 'waiting');
        const next = acquire(second, name, options);
        await waiting;
        await before.release();
        await using hold = await next;
        await isKnown(hold);
      },
    );

    // With a lease shorter than that of its place: there is nothing to extend when it asks.
    it.for([{ connection: 'same' }, { connection: 'new' }])(
      'is passed on by a waiter that was let in without an acknowledgement, on the $connection connection',
      async ({ connection }, { skip }) => {
        skip(acquire === plain, 'who wants it next is not in a line');
        const { servers, master } = present();
        await using first = connect({ replicas: 0 });
        await using second = connect({ commandTimeout: 500 });
        await using third = connect({ replicas: 0 });
        const name = uniqueName();
        const before = await block(first, name);
        let waiting = nextEvent(second, 'waiting');
        const next = rejectionOf(acquire(second, name, { lease: 2_000 }));
        await waiting;
        waiting = nextEvent(third, 'waiting');
        const last = block(third, name);
        await waiting;
        if (connection === 'new') {
          await master.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
          await Promise.all([first, second, third].map((client) => client.getLock('x').isLocked()));
        }
        await servers.replicas[0]!.pause();
        await before.release();
        const error = await settledWithin(next, 5_000);
        expect(error).toBeInstanceOf(UnavailableError);
        expect(String(error)).toContain('0 of 1 replicas acknowledged it');
        await (await last).release();
        await leavesNothing(name);
      },
    );

    it('is lost when no renewal is acknowledged, although the master has it', async () => {
      await using client = connect(short);
      const hold = await acquire(client, uniqueName());
      await nextEvent(client, 'renewed');
      const errors = eventsOf(client, 'error');
      const lost = nextEvent(client, 'lost');
      await present().servers.replicas[0]!.pause();
      expect(await lost).toMatchObject({ lossReason: 'unreachable' });
      expect(hold.remaining()).toBe(0);
      expect(errors.map(({ error }) => error.message)).toEqual([
        expect.stringMatching(/: 0 of 1 replicas acknowledged it within/),
      ]);
    });

    it('is extended when the replica knows, and unchanged when it does not', async () => {
      const { servers } = present();
      await using client = connect({ commandTimeout: 1_000 });
      await using hold = await acquire(client, uniqueName(), { lease: 10_000 });
      await servers.replicas[0]!.pause();
      const error = await rejectionOf(hold.extend(60_000));
      expect(String(error)).toContain('0 of 1 replicas acknowledged it');
      expect(hold.remaining()).toBeLessThan(10_000);
      await servers.replicas[0]!.resume();
      await hold.extend(60_000);
      expect(hold.remaining()).toBeGreaterThan(50_000);
      await isKnown(hold);
    });

    // Only since Redis 7.2 does WAIT on a new connection wait for nothing.
    it('does not count as known after a renewal that finds it long enough, on a new connection', async () => {
      const { servers, master } = present();
      await using client = connect({ lockWatchdogTimeout: 4_000, commandTimeout: 1_000 });
      const hold = await acquire(client, uniqueName());
      await nextEvent(client, 'renewed');
      await servers.replicas[0]!.pause();
      await rejectionOf(hold.extend(60_000)); // the master knows of that
      const lost = nextEvent(client, 'lost');
      await master.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      expect(await lost).toMatchObject({ lossReason: 'unreachable' });
    });

    it('is released without waiting for the replica', async () => {
      await using client = connect();
      const hold = await acquire(client, uniqueName());
      await present().servers.replicas[0]!.pause();
      expect(await settledWithin(hold.release(), 2_000)).toBeUndefined();
      await leavesNothing(hold.lockName);
    });
  });

  it('a nested acquisition extends the lease only when the replica knows', async () => {
    const { servers } = present();
    await using client = connect({ commandTimeout: 1_000 });
    const lock = client.getReadWriteLock(uniqueName());
    await using hold = await lock.writeLock().acquire({ lease: 10_000 });
    await hold.run(async () => {
      for (const half of [lock.readLock(), lock.writeLock()]) {
        await servers.replicas[0]!.pause();
        const error = await rejectionOf(half.acquire({ lease: 60_000 }));
        expect(String(error)).toContain('0 of 1 replicas acknowledged it');
        expect(hold.remaining()).toBeLessThan(10_000);
        await servers.replicas[0]!.resume();
      }
      await using nested = await lock.readLock().acquire({ lease: 60_000 });
      expect(nested.remaining()).toBeGreaterThan(50_000);
      await isKnown(nested);
    });
  });

  it('setPermits() waits until the replica knows; if it does not, the call reports that', async () => {
    const { servers, replica } = present();
    await using client = connect({ commandTimeout: 1_000 });
    const semaphore = client.getSemaphore(uniqueName(), { permits: 1 });
    await semaphore.setPermits(2);
    const setKey = `holdfast_permits:{${semaphore.name}}`;
    expect(await replica.get(setKey)).toBe('2');
    await servers.replicas[0]!.pause();
    const error = await rejectionOf(semaphore.setPermits(3));
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE', lockName: semaphore.name });
    expect(String(error)).toContain('0 of 1 replicas acknowledged it');
    await servers.replicas[0]!.resume();
    await semaphore.setPermits(3);
    expect(await replica.get(setKey)).toBe('3');
    await present().master.del(setKey);
  });

  it('a waiter is let in by more permits at once, even if they were not acknowledged', async () => {
    const { servers, master } = present();
    await using client = connect({ commandTimeout: 400 });
    await using other = connect({ replicas: 0 });
    const semaphore = new TestSemaphore(master, 1);
    const hold = await semaphore.of(other).acquire();
    const waiter = await semaphore.join(other);
    await client.ping();
    await servers.replicas[0]!.pause();
    const error = await rejectionOf(semaphore.of(client).setPermits(2));
    expect(String(error)).toContain('0 of 1 replicas acknowledged it');
    // Before the next renewal of its place, which would find that out.
    const held = await inTime(waiter.hold, long.lockWatchdogTimeout / 6, 'it is not let in');
    await Promise.all([hold.release(), held.release()]);
    await master.del(semaphore.setKey);
  });

  it('a downgrade lets readers in without waiting for the replica', async () => {
    await using client = connect();
    await using other = connect({ replicas: 0 });
    const lock = client.getReadWriteLock(uniqueName());
    const hold = await lock.writeLock().acquire();
    const read = await hold.run(() => lock.readLock().acquire());
    const waiting = nextEvent(other, 'waiting');
    const beside = other.getReadWriteLock(lock.name).readLock().acquire();
    await waiting;
    await present().servers.replicas[0]!.pause();
    expect(await settledWithin(hold.release(), 2_000)).toBeUndefined();
    await (await beside).release();
    await read.release();
    await leavesNothing(lock.name);
  });
});
