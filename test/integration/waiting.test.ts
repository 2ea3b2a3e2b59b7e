// Waiting by subscription: silent while the lock is held, one try per message and client, first come first served.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, type Lock } from '../../src/index.js';
import { eventsOf, nextEvent } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { loadScripts } from '../support/lock-commands.js';
import { recordCommands } from '../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { startProxy } from '../support/tcp-proxy.js';
import { uniqueName } from '../support/unique-name.js';

const WAITERS = 1_000;

let server: RedisServer;
let redis: Redis;
let holder: Holdfast;
let waiter: Holdfast;
let held: Lock;
let awaited: Lock;

beforeAll(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  redis = new Redis(server.url);
  await redis.ping();
});

afterAll(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

beforeEach(async () => {
  holder = new Holdfast({ redis: server.url });
  waiter = new Holdfast({ redis: server.url });
  const name = uniqueName();
  held = holder.getLock(name);
  awaited = waiter.getLock(name);
  await Promise.all([held.isLocked(), awaited.isLocked()]); // connected
});

afterEach(async () => {
  await Promise.all([holder.close(), waiter.close()]);
});

/** How many channels somebody listens to for this lock. */
async function subscriptions(lock: Lock): Promise<number[]> {
  const channels = (await redis.pubsub('CHANNELS', `*${lock.name}*`)) as string[];
  const counts = (await redis.pubsub('NUMSUB', ...channels)) as (string | number)[];
  return counts.filter((count) => typeof count === 'number');
}

/** The scripts that clients ran on this lock meanwhile. */
async function tries(lock: Lock, fn: () => Promise<unknown>): Promise<number> {
  const commands = await recordCommands(server.url, fn);
  return commands.filter(({ name, args }) => name === 'EVALSHA' && args.includes(lock.name)).length;
}

/** Waits until so many wait for the lock, and the subscription and the try after it are over. */
async function waiting(count: number, start: () => void): Promise<void> {
  const told = eventsOf(waiter, 'waiting');
  start();
  await eventually(() => {
    expect(told).toHaveLength(count);
  });
  await eventually(async () => {
    expect(await subscriptions(awaited)).toEqual([1]);
  });
  await sleep(100);
}

describe(`${String(WAITERS)} waiters of one client on one lock`, () => {
  it('hold one subscription, send nothing while it is held, and get it in order, one try per message', async () => {
    await held.lock();
    const order: number[] = [];
    let all!: Promise<unknown>;
    await waiting(WAITERS, () => {
      all = Promise.all(
        Array.from({ length: WAITERS }, (_, index) =>
          awaited.withLock(() => void order.push(index)),
        ),
      );
    });
    expect(await tries(awaited, () => sleep(1_000))).toBe(0);
    const commands = await tries(awaited, async () => {
      await held.unlock();
      await all;
    });
    expect(order).toEqual(Array.from({ length: WAITERS }, (_, index) => index));
    // The release that starts it; then for each waiter one try and one release.
    expect(commands).toBe(1 + 2 * WAITERS);
  });

  it('try once per TTL for the whole client when no message comes', async () => {
    await redis.hset(awaited.name, 'somebody:1', 1);
    await redis.pexpire(awaited.name, 600);
    const all: Promise<boolean>[] = [];
    await waiting(100, () => {
      for (let index = 0; index < 100; index++) all.push(awaited.tryLock(2_500, 60_000));
    });
    // Its lease is prolonged by renewals, which send no message.
    const prolong = async (): Promise<void> => {
      for (let renewal = 0; renewal < 8; renewal++) {
        await redis.pexpire(awaited.name, 600);
        await sleep(150);
      }
    };
    expect(await tries(awaited, prolong)).toBeLessThanOrEqual(4);
    await redis.del(awaited.name); // no message either: found when the TTL is over
    const results = await Promise.all(all);
    expect(results.filter(Boolean)).toHaveLength(1);
    await awaited.unlock();
  });
});

it('on a message one waiter per client tries', async () => {
  await using other = new Holdfast({ redis: server.url });
  await held.lock();
  const mine: Promise<void>[] = [];
  const theirs: Promise<void>[] = [];
  const told = eventsOf(other, 'waiting');
  await waiting(10, () => {
    for (let index = 0; index < 10; index++) mine.push(awaited.lock());
  });
  for (let index = 0; index < 10; index++) theirs.push(other.getLock(held.name).lock());
  await eventually(() => {
    expect(told).toHaveLength(10);
  });
  await sleep(200);
  const acquired = Promise.race([nextEvent(waiter, 'acquired'), nextEvent(other, 'acquired')]);
  const commands = await tries(held, async () => {
    await held.unlock();
    await acquired;
    await sleep(200);
  });
  expect(commands).toBe(3); // the release, and one try of each client
  const all = Promise.allSettled([...mine, ...theirs]);
  await Promise.all([waiter.close(), other.close()]);
  await all;
});

describe('a waiter that gives up while it is being woken', () => {
  it.each(['abort', 'timeout', 'close of another client'])('passes it on: %s', async (how) => {
    await held.lock();
    const aborter = new AbortController();
    const told = eventsOf(waiter, 'waiting');
    const first =
      how === 'timeout'
        ? awaited.acquire({ wait: 300 })
        : awaited.acquire({ signal: aborter.signal });
    const refused = first.then(
      (hold) => hold.release(),
      () => undefined,
    );
    const second = awaited.acquire();
    await eventually(() => {
      expect(told).toHaveLength(2);
    });
    await sleep(how === 'timeout' ? 297 : 100);
    const releasing = held.unlock();
    if (how === 'abort') aborter.abort();
    await releasing;
    if (how === 'close of another client') await holder.close();
    const before = performance.now();
    await (await second).release();
    expect(performance.now() - before).toBeLessThan(1_000);
    aborter.abort();
    await refused;
  });
});

it('a waiter that aborts leaves the line: the next one is woken', async () => {
  await held.lock();
  const aborter = new AbortController();
  let first!: Promise<unknown>;
  let second!: Promise<void>;
  await waiting(2, () => {
    first = awaited.lock({ signal: aborter.signal }).catch((error: unknown) => error);
    second = awaited.lock();
  });
  aborter.abort();
  expect(await first).toMatchObject({ code: 'LOCK_ABORTED' });
  await held.unlock();
  await second;
  await awaited.unlock();
});

it('a lost message costs at most the TTL', async () => {
  await held.lock(800);
  let mine!: Promise<void>;
  await waiting(1, () => {
    mine = awaited.lock();
  });
  await redis.del(awaited.name); // nobody publishes
  const before = performance.now();
  await mine;
  expect(performance.now() - before).toBeLessThan(1_500);
  await awaited.unlock();
  await held.unlock().catch(() => undefined);
});

it('a reconnect wakes: what was released meanwhile is not missed', async () => {
  await using proxy = await startProxy(server.port);
  await using far = new Holdfast({ redis: proxy.url });
  await held.lock();
  const mine = far.getLock(held.name).lock();
  await nextEvent(far, 'waiting');
  await eventually(async () => {
    expect(await subscriptions(held)).toEqual([1]);
  });
  proxy.refuse();
  proxy.cut();
  await held.unlock(); // its message is not heard
  await sleep(200);
  await proxy.accept();
  await mine;
  await far.getLock(held.name).unlock();
});

it('a channel lingers a little after the last waiter, then it is left', async () => {
  await held.lock();
  const mine = awaited.tryLock(200);
  await nextEvent(waiter, 'waiting');
  expect(await mine).toBe(false);
  expect(await subscriptions(awaited)).toEqual([1]);
  expect(await awaited.tryLock(50)).toBe(false); // on the same subscription
  await eventually(async () => {
    expect(await subscriptions(awaited)).toEqual([]);
  }, 5_000);
  await held.unlock();
});
