// MultiLocks and Redlocks of holdfast and Redisson over the same locks exclude and wake each other.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast, Lock } from '../../src/index.js';
import { newClient, nextEvent } from '../support/clients.js';
import type { RedisServer } from '../support/redis-server.js';
import { startMasters } from '../support/redis-topologies.js';
import {
  RedissonClient,
  redissonUnavailable,
  startRedisson,
  type Redisson,
  type RedissonLock,
} from '../support/redisson.js';
import { inTime, NEVER, settledWithin } from '../support/time.js';
import { uniqueName } from '../support/unique-name.js';

const ROUNDS = 30;

/** Servers that have just been started vote, and a busy machine may answer late. */
const redOptions = { restartGuard: false, nodeTimeout: 2_000 } as const;

describe.skipIf(redissonUnavailable)('several locks, beside Redisson', () => {
  let masters: RedisServer[] & AsyncDisposable;
  let looking: Redis[];
  let java: Redisson;
  let redissons: RedissonClient[];
  let clients: Holdfast[];

  beforeAll(async () => {
    masters = await startMasters(3);
    looking = masters.map(({ url }) => new Redis(url));
    await Promise.all(looking.map((redis) => redis.ping()));
    java = startRedisson();
    redissons = await Promise.all(masters.map((master) => java.connect([master])));
  });

  beforeEach(() => {
    clients = masters.map(({ url }) =>
      newClient({ redis: url, lockWatchdogTimeout: 60_000, commandTimeout: 10_000 }),
    );
  });

  afterEach(async () => {
    await Promise.all(clients.map((client) => client.close()));
  });

  afterAll(async () => {
    await java.kill();
    for (const redis of looking) redis.disconnect();
    await masters[Symbol.asyncDispose]();
  });

  it('MultiLocks of both, named in different orders, count without losing anything', async () => {
    const [a, b, c] = [uniqueName(), uniqueName(), uniqueName()];
    const ours = clients[0]!.getMultiLock(...[a, b].map((name) => clients[0]!.getLock(name)));
    const ours2 = clients[0]!.getMultiLock(...[b, c].map((name) => clients[0]!.getLock(name)));
    const theirs = redissons[0]!.getMultiLock(b, a);
    // All of them have b.
    await countTogether([ours, ours2], [theirs, redissons[0]!.getMultiLock(c, b).of('other')]);
  });

  it('a MultiLock of either needs every one of its locks, whoever holds it', async () => {
    const [a, b] = [uniqueName(), uniqueName()];
    const ours = clients[0]!.getMultiLock(clients[0]!.getLock(a), clients[0]!.getLock(b));
    const theirs = redissons[0]!.getMultiLock(a, b);
    await redissons[0]!.getLock(b).lock();
    expect(await ours.tryLock()).toBe(false);
    expect(await clients[0]!.getLock(a).isLocked()).toBe(false);
    const waiting = nextEvent(clients[0]!, 'waiting');
    const next = ours.acquire();
    await waiting;
    await redissons[0]!.getLock(b).unlock();
    const hold = await next;
    expect(await redissons[0]!.getLock(a).isLocked()).toBe(true);
    expect(await theirs.tryLock()).toBe(false);
    await hold.release();
    expect(await theirs.tryLock()).toBe(true);
    expect(await clients[0]!.getLock(a).tryLock()).toBe(false);
    await theirs.unlock();
  });

  it('Redlocks of both count without losing anything', async () => {
    const name = uniqueName();
    await countTogether([red(name)], [RedissonClient.getRedLock(name, ...redissons)]);
  });

  it("a Redlock of either waits for the other's, and is woken by its release", async () => {
    const name = uniqueName();
    const ours = red(name);
    const theirs = RedissonClient.getRedLock(name, ...redissons);
    const hold = await ours.acquire();
    expect(await theirs.tryLock()).toBe(false);
    const next = theirs.of('waiter').lock();
    await sleep(100);
    await hold.release();
    expect(await settledWithin(next, 20_000)).not.toBe(NEVER);

    expect(await ours.tryLock()).toBe(false);
    const waiting = nextEvent(clients[0]!, 'waiting');
    const mine = ours.acquire();
    await waiting;
    await theirs.of('waiter').unlock();
    const taken = await inTime(mine, 20_000, 'Redisson’s release did not wake us');
    await taken.release();
  });

  function red(name: string): Lock {
    return clients[0]!.getRedLock(...clients.map((client) => client.getLock(name)), redOptions);
  }

  /** All count up one key at the same time, each under its lock. */
  async function countTogether(
    ours: readonly Lock[],
    theirs: readonly RedissonLock[],
  ): Promise<void> {
    const counter = uniqueName('counter');
    const redis = looking[0]!;
    await Promise.all([
      ...theirs.map((lock) => lock.count(counter, ROUNDS)),
      ...ours.map(async (lock) => {
        for (let round = 0; round < ROUNDS; round++) {
          await lock.withLock(async () => {
            const value = Number(await redis.get(counter));
            await sleep(Math.random() * 3);
            await redis.set(counter, value + 1);
          });
        }
      }),
    ]);
    expect(await redis.get(counter)).toBe(String((ours.length + theirs.length) * ROUNDS));
    await redis.del(counter);
  }
});
