// The client's own `wait`: how long calls wait that do not set one.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, HoldfastOptions, Lock, PermitHold } from '../../../src/index.js';
import {
  eventsOf,
  newClient,
  nextEvent,
  proxyPerTest,
  rejectionOf,
} from '../../support/clients.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const WAIT_MS = 150;

let server: RedisServer;
let name: string;

beforeAll(async () => {
  server = await startRedis(); // it may remember the leases of Redlocks
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

beforeEach(() => {
  name = uniqueName();
});

function clientOf(options: Partial<HoldfastOptions> = {}): Holdfast {
  return newClient({ redis: server.url, ...options });
}

/** Keeps its lock on a busy machine, too. */
function newHolder(): Holdfast {
  return clientOf({ lockWatchdogTimeout: 10_000 });
}

const kinds: [string, (client: Holdfast) => Lock][] = [
  ['reentrant lock', (client) => client.getLock(name)],
  ['fair lock', (client) => client.getFairLock(name)],
  ['fenced lock', (client) => client.getFencedLock(name)],
  ['write lock', (client) => client.getReadWriteLock(name).writeLock()],
  ['MultiLock', (client) => client.getMultiLock(client.getLock(name))],
  ['Redlock', (client) => client.getRedLock(client.getLock(name), { restartGuard: false })],
];

describe.each(kinds)(
  'a client with a `wait` of its own, and a %s that is held',
  (_title, lockOf) => {
    it('gives up after that wait, except that a single attempt stays one', async () => {
      await using holder = newHolder();
      await using client = clientOf({ wait: WAIT_MS });
      const lock = lockOf(client);
      await using hold = await lockOf(holder).acquire();
      let calls = 0;
      const refused = [
        lock.lock(),
        lock.lock(900),
        lock.lock({ lease: 900 }),
        lock.acquire(),
        lock.acquire({ lease: 900 }),
        lock.withLock(() => calls++),
        lock.withLock({}, () => calls++),
      ].map(rejectionOf);
      for (const error of await Promise.all(refused)) {
        expect(error).toMatchObject({ code: 'LOCK_TIMEOUT' });
        expect(String(error)).toContain(`not acquired within ${WAIT_MS} ms`);
      }
      expect(calls).toBe(0);
      const waiting = eventsOf(client, 'waiting');
      expect(await lock.tryLock()).toBe(false);
      expect(await lock.tryAcquire()).toBeUndefined();
      expect(waiting).toEqual([]);
      expect(hold.remaining()).toBeGreaterThan(0);
    });

    it('waits for as long as the call itself sets', async () => {
      await using holder = newHolder();
      await using client = clientOf({ wait: 0 });
      const lock = lockOf(client);
      const hold = await lockOf(holder).acquire();
      expect(await rejectionOf(lock.lock())).toMatchObject({ code: 'LOCK_TIMEOUT' });
      const waiting = nextEvent(client, 'waiting');
      const acquiring: Promise<Hold> = lock.acquire({ wait: Infinity });
      await waiting;
      await hold.release();
      await (await acquiring).release();
    });
  },
);

describe('a client with a `wait` of its own', () => {
  it('gives up after it when it wants the token of a fenced lock, or permits', async () => {
    await using holder = newHolder();
    await using client = clientOf({ wait: WAIT_MS });
    const fenced = client.getFencedLock(name);
    const semaphore = client.getSemaphore(`${name}:permits`, { permits: 1 });
    await using hold = await holder.getFencedLock(name).acquire();
    await using permit: PermitHold = await holder
      .getSemaphore(semaphore.name, { permits: 1 })
      .acquire();
    const refused = [
      fenced.lockAndGetToken(),
      semaphore.acquire(),
      semaphore.withPermits(() => undefined),
      semaphore.withPermits({ permits: 1 }, () => undefined),
    ].map(rejectionOf);
    for (const error of await Promise.all(refused)) {
      expect(error).toMatchObject({ code: 'LOCK_TIMEOUT' });
      expect(String(error)).toContain(`not acquired within ${WAIT_MS} ms`);
    }
    expect(await semaphore.tryAcquire()).toBeUndefined();
    expect(Math.min(hold.remaining(), permit.remaining())).toBeGreaterThan(0);
  });

  it('applies it to the MultiLocks and Redlocks that it makes, whatever the clients of the members set', async () => {
    await using holder = newHolder();
    await using maker = clientOf({ wait: WAIT_MS });
    await using other = clientOf({ wait: 60_000 });
    await using hold = await holder.getLock(name).acquire();
    const locks = [
      maker.getMultiLock(other.getLock(name)),
      maker.getRedLock(other.getLock(name), { restartGuard: false }),
    ];
    for (const lock of locks) {
      expect(String(await rejectionOf(lock.lock()))).toContain(`within ${WAIT_MS} ms`);
    }
    expect(hold.remaining()).toBeGreaterThan(0);
  });
});

describe('a client with a `wait` of its own whose Redis is down', () => {
  const proxy = proxyPerTest();

  it('does not wait for ever', async () => {
    proxy().refuse();
    await using client = newClient({ redis: proxy().url, wait: WAIT_MS });
    client.on('error', () => undefined);
    const lock = client.getLock(name);
    const calls = [lock.lock(), lock.acquire(), lock.withLock(() => undefined)].map(rejectionOf);
    for (const error of await Promise.all(calls)) {
      expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      expect(String(error)).toContain(`within ${WAIT_MS} ms`);
    }
    await proxy().accept();
  });
});
