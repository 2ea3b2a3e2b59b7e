// Failures of other lock libraries, part 2: thousands of races, leaks, and two callers in the critical section at once.
import { Redis } from 'ioredis';
import { getEventListeners, setMaxListeners, type EventEmitter } from 'node:events';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, it } from 'vitest';
import type { Holdfast, Lock } from '../../../src/index.js';
import { eventsOf, newClient, sharedConnection, startSharedProxy } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { commandOf } from '../../support/lock-commands.js';
import { Occupancy } from '../../support/occupancy.js';
import { nameToken, uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();

describe('a release that races a renewal', () => {
  it('is not a loss: 10,000 releases during renewals report none', async () => {
    await using proxy = await startSharedProxy();
    await using client = newClient({
      redis: proxy.url,
      lockWatchdogTimeout: 10_000,
      commandTimeout: 20_000,
    });
    const lost = eventsOf(client, 'lost');
    const released = eventsOf(client, 'released');
    const names = Array.from({ length: 2_000 }, () => uniqueName());
    for (let round = 0; round < 5; round++) {
      const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
      const renewal = proxy.copyNext(commandOf('renew', names[0]!));
      proxy.delay({ downstreamMs: 20 });
      await renewal.happened;
      await Promise.all(holds.map((hold) => hold.release()));
      proxy.delay();
    }
    expect(lost).toEqual([]);
    expect(released).toHaveLength(10_000);
    expect(await redis.exists(...names)).toBe(0);
  }, 60_000);
});

describe('10,000 contended cycles over 1,000 names', () => {
  it('leave no subscription and no listener behind', async () => {
    const own = new CountedRedis(inject('redisUrl'));
    try {
      await using holder = newClient({ redis: own, lockWatchdogTimeout: 30_000 });
      await using waiter = newClient({ redis: own, lockWatchdogTimeout: 30_000 });
      const aborter = new AbortController();
      setMaxListeners(0, aborter.signal);
      await contendedCycle(holder, waiter, uniqueName(), aborter.signal);
      await noChannels();
      const listenersBefore = own.listenerCounts();

      const names = Array.from({ length: 1_000 }, () => uniqueName());
      const workers = Array.from({ length: 50 }, async (_, worker) => {
        for (let cycle = 0; cycle < 200; cycle++) {
          const name = names[(worker + 50 * cycle) % names.length]!;
          await contendedCycle(holder, waiter, name, aborter.signal);
        }
      });
      await Promise.all(workers);

      await noChannels();
      expect(own.listenerCounts()).toEqual(listenersBefore);
      expect(getEventListeners(aborter.signal, 'abort')).toEqual([]);
      expect(await redis.exists(...names)).toBe(0);
    } finally {
      own.disconnect();
    }
  }, 60_000);

  /** One client acquires the lock, the other finds it held and waits; the first releases, and the other acquires it. */
  async function contendedCycle(
    holder: Holdfast,
    waiter: Holdfast,
    name: string,
    signal: AbortSignal,
  ): Promise<void> {
    const hold = await holder.getLock(name).acquire({ signal });
    let isWaiting!: () => void;
    const waiting = new Promise<void>((resolve) => (isWaiting = resolve));
    const listener = ({ lockName }: { lockName: string }): void => {
      if (lockName === name) isWaiting();
    };
    waiter.on('waiting', listener);
    const next = waiter.getLock(name).acquire({ signal });
    await waiting;
    waiter.off('waiting', listener);
    await hold.release();
    await (await next).release();
  }

  async function noChannels(): Promise<void> {
    await eventually(async () => {
      expect(await redis.pubsub('CHANNELS', `*${nameToken}*`)).toEqual([]);
    });
  }
});

describe('callers that share one lock object', () => {
  it('never hold the lock together: 200 concurrent read-await-write cycles count to 200', async () => {
    await using client = newClient({ lockWatchdogTimeout: 30_000 });
    const lock = client.getLock(uniqueName('shared'));
    let counter = 0;
    const count = async (): Promise<void> => {
      const read = counter;
      await nextTurn();
      counter = read + 1;
    };
    const ways = [
      () => lock.withLock(count),
      async () => {
        await lock.lock();
        await count().finally(() => lock.unlock());
      },
      async () => {
        await using hold = await lock.acquire();
        await hold.run(count);
      },
      () =>
        client.run(async () => {
          await lock.tryLock(Infinity);
          await count().finally(() => lock.unlock());
        }),
    ];
    await Promise.all(Array.from({ length: 200 }, (_, i) => ways[i % ways.length]!()));
    expect(counter).toBe(200);
  });
});

describe('parallel branches', () => {
  it('of one scope never hold the lock together', async () => {
    await neverBothGetIn((branches, _lock, client) => client.run(branches));
  });

  it('inside one holder never hold the lock together', async () => {
    await neverBothGetIn((branches, lock) => lock.withLock(branches));
  });

  /** Two branches that start at the same time, in the scope of `start`. */
  async function neverBothGetIn(
    start: (branches: () => Promise<unknown>, lock: Lock, client: Holdfast) => Promise<unknown>,
  ): Promise<void> {
    await using client = newClient();
    const lock = client.getLock(uniqueName());
    const occupancy = new Occupancy();
    const branch = (): Promise<void> =>
      lock.withLock(() => occupancy.inside('branch', () => sleep(50)));
    await start(() => Promise.all([branch(), branch()]), lock, client);
    expect(occupancy.most).toBe(1);
  }
});

/** Counts the listeners on the connections that clients derive from this one. */
class CountedRedis extends Redis {
  readonly #duplicates: Redis[] = [];

  constructor(url: string) {
    super(url, { lazyConnect: true });
  }

  override duplicate(...args: Parameters<Redis['duplicate']>): Redis {
    const duplicate = super.duplicate(...args);
    this.#duplicates.push(duplicate);
    return duplicate;
  }

  listenerCounts(): Record<string, number>[] {
    return this.#duplicates.flatMap((redis) => [redis, redis.stream].map(countListeners));
  }
}

function countListeners(emitter: EventEmitter): Record<string, number> {
  return Object.fromEntries(
    emitter.eventNames().map((name) => [String(name), emitter.listenerCount(name)]),
  );
}
