// Keys that have lost their expiry, by PERSIST or by a copy without a time to live: a lock of any kind gets one again while its holder lives, and
// one of a holder that is gone can be seen and freed. What each script does about it is in test/unit/project/endless-keys.test.ts.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KeyConflictError, type Holdfast, type Hold } from '../../../src/index.js';
import { forceUnlock } from '../../../src/ui/force.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { eventsOf, newClient, rejectionOf, sharedConnection } from '../../support/clients.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 900;
/** A lease of which no test sees the end, nor a renewal. */
const LONG_MS = 900_000;

const redis = sharedConnection();
const masters = redNodes(() => startMasters(3));
let client: Holdfast;
let quiet: Holdfast;
let name: string;
let keys: LockKeys;

beforeEach(async () => {
  client = newClient({ lockWatchdogTimeout: LEASE_MS });
  quiet = newClient({ lockWatchdogTimeout: LONG_MS });
  name = uniqueName('endless');
  keys = new LockKeys(name);
  await Promise.all([client.ping(), quiet.ping()]);
});

afterEach(async () => {
  await Promise.all([client.close(), quiet.close()]);
  await redis.del(...all(keys));
});

function all({ lock, leases, line, places, permits, forced, forcedOwners }: LockKeys): string[] {
  return [lock, leases, line, places, permits, forced, forcedOwners];
}

/** They must be there. */
async function persist(...each: string[]): Promise<void> {
  for (const key of each) expect(await redis.persist(key), key).toBe(1);
}

async function expectEnd(key: string, leastMs = 1, mostMs = Infinity): Promise<void> {
  const ttlMs = await redis.pttl(key);
  expect(ttlMs, key).toBeGreaterThanOrEqual(leastMs);
  expect(ttlMs, key).toBeLessThanOrEqual(mostMs);
}

/** As the client of a process that has died left it. */
async function deadHolder(): Promise<string> {
  const ownerId = 'web-1-4711-0123456789ab:1795708800123000';
  await redis.hset(name, ownerId, 1);
  return ownerId;
}

const KINDS: readonly (readonly [string, (from: Holdfast) => Promise<Hold>])[] = [
  ['plain', (from) => from.getLock(name).acquire()],
  ['fair', (from) => from.getFairLock(name).acquire()],
  ['fenced', (from) => from.getFencedLock(name).acquire()],
  ['fenced and fair', (from) => from.getFencedLock(name, { fair: true }).acquire()],
  ['read', (from) => from.getReadWriteLock(name).readLock().acquire()],
  ['write', (from) => from.getReadWriteLock(name).writeLock().acquire()],
];

describe.each(KINDS)('a %s lock that has lost its expiry', (_kind, acquire) => {
  it('gets one by the next renewal, and nobody loses it', async () => {
    const lost = eventsOf(client, 'lost');
    await using hold = await acquire(client);
    await persist(name);
    await eventually(() => expectEnd(name, 1, LEASE_MS));
    expect(hold.signal.aborted).toBe(false);
    expect(lost).toEqual([]);
  });

  it('gets one by extend()', async () => {
    await using hold = await acquire(quiet);
    await persist(name);
    await hold.extend(2 * LONG_MS);
    await expectEnd(name, LONG_MS, 2 * LONG_MS);
  });

  it('gets one by a shorter extension, and not before its holder stops relying on it', async () => {
    await using hold = await acquire(quiet);
    await persist(name);
    await hold.extend(1_000);
    await expectEnd(name, hold.remaining() + LONG_MS / 200, LONG_MS);
  });
});

it('a nested acquisition gives a lock its expiry again, and a short one ends no lease that the outer one relies on', async () => {
  const lock = quiet.getLock(name);
  await lock.withLock(async (outer) => {
    await persist(name);
    await lock.withLock({ lease: 500 }, () =>
      expectEnd(name, outer.remaining() + LONG_MS / 200, LONG_MS),
    );
  });
  expect(await redis.exists(name)).toBe(0);
});

it('a fixed lease ends for its holder, who then frees the lock', async () => {
  const hold = await client.getLock(name).acquire({ lease: 300 });
  await persist(name);
  await eventually(async () => {
    expect(hold.signal.aborted).toBe(true);
    expect(await redis.exists(name)).toBe(0);
  });
});

it.each(['getLock', 'getFairLock'] as const)(
  'a lock with lockAtLeastFor of %s ends after that time',
  async (get) => {
    const hold = await quiet[get](name).acquire({ lockAtLeastFor: 1_000 });
    await persist(name);
    await hold.release();
    await expectEnd(name, 1, 1_000);
  },
);

it('a kept lock gets an expiry by the next confirmation', async () => {
  const lock = client.getLock(name, { keep: 100 });
  await eventually(async () => {
    await lock.withLock(() => undefined);
    await persist(name);
  });
  await eventually(async () => {
    await lock.withLock(() => undefined);
    if ((await redis.exists(name)) === 1) await expectEnd(name, 1, LEASE_MS);
  });
});

it('the line of a fair lock gets an expiry by the next renewal of a place, and the lock by the one of its holder', async () => {
  await using holder = await client.getFairLock(name).acquire();
  const next = quiet.getFairLock(name).acquire();
  const own = client.detach(() => client.getFairLock(name).acquire());
  await eventually(async () => {
    expect(await redis.zcard(keys.line)).toBe(2);
  });
  await persist(name, keys.line, keys.places);
  await eventually(async () => {
    for (const key of [name, keys.line, keys.places]) await expectEnd(key);
  });
  await holder.release();
  await (await next).release();
  await (await own).release();
});

it('the members of a Redlock get their expiry again, and what they remember ends', async () => {
  await using red = await masters.client({ lockWatchdogTimeout: LEASE_MS });
  const lock = red.lock(name);
  const hold = await lock.acquire();
  const ends = (key: string, isThere: boolean): Promise<(number | undefined)[]> =>
    masters.ask(async (node) => (isThere ? await node.pttl(key) : await node.persist(key)));
  for (const key of [name, keys.longestLease]) expect(await ends(key, false)).toEqual([1, 1, 1]);
  await eventually(async () => {
    for (const ttlMs of await ends(name, true)) expect(ttlMs).toBeGreaterThan(0);
    for (const ttlMs of await ends(keys.longestLease, true)) expect(ttlMs).toBeGreaterThan(0);
  });
  expect(hold.signal.aborted).toBe(false);
  await hold.release();
});

describe('a semaphore that has lost its expiry', () => {
  const semaphore = (of: Holdfast) => of.getSemaphore(name, { permits: 3 });

  it('is no other data: permits are taken, counted and set, and it gets its expiry by that', async () => {
    const hold = await semaphore(quiet).acquire();
    await persist(name, keys.leases);
    expect(await semaphore(client).availablePermits()).toBe(2);
    expect(await semaphore(client).getWaiters()).toEqual([]);
    expect((await client.inspect(name))?.permits).toEqual({ capacity: 3, available: 2 });
    const other = await semaphore(client).acquire();
    for (const key of [name, keys.leases]) await expectEnd(key, LONG_MS / 2, LONG_MS);
    await persist(name, keys.leases);
    await semaphore(client).setPermits(4);
    await Promise.all([hold.release(), other.release()]);
    expect(await redis.exists(name, keys.leases)).toBe(0);
  });

  it('lasts as long as its longest lease when another one is renewed', async () => {
    const long = await semaphore(quiet).acquire();
    const short = await semaphore(client).acquire();
    await persist(name, keys.leases);
    await eventually(async () => {
      for (const key of [name, keys.leases]) await expectEnd(key, LONG_MS / 2, LONG_MS);
    });
    await Promise.all([long.release(), short.release()]);
  });

  it.each([
    ['its lock', () => [keys.lock]],
    ['its leases', () => [keys.leases]],
    ['both', () => [keys.lock, keys.leases]],
  ])('is free when the leases of its dead holders have ended: %s', async (_, endless) => {
    const endsAtMs = Date.now() + 500;
    const ownerId = 'web-1-4711-0123456789ab:1795708800123000';
    await redis.hset(name, 'capacity', 3, 'used', 3, ownerId, 3);
    await redis.zadd(keys.leases, endsAtMs, ownerId);
    for (const key of [keys.lock, keys.leases])
      if (!endless().includes(key)) await redis.pexpireat(key, endsAtMs);
    const hold = await semaphore(client).acquire({ permits: 3, wait: 5_000 });
    expect(Date.now()).toBeGreaterThanOrEqual(endsAtMs);
    await hold.release();
    expect(await redis.exists(name, keys.leases)).toBe(0);
  });

  it('is other data without holders', async () => {
    await redis.hset(name, 'capacity', 3, 'used', 2);
    expect(await rejectionOf(semaphore(client).acquire())).toBeInstanceOf(KeyConflictError);
    await redis.hset(name, 'doors', 3, 'a:1', 1);
    expect(await rejectionOf(semaphore(client).acquire())).toBeInstanceOf(KeyConflictError);
    expect(await redis.hgetall(name)).toEqual({ capacity: '3', used: '2', doors: '3', 'a:1': '1' });
  });
});

it('a read-write lock that has lost its expiry is looked at and acquired, and gets it again', async () => {
  const lock = quiet.getReadWriteLock(name);
  const reader = await lock.readLock().acquire();
  await persist(name, keys.leases);
  expect(await client.getReadWriteLock(name).readLock().isLocked()).toBe(true);
  expect(await client.getReadWriteLock(name).writeLock().isLocked()).toBe(false);
  const other = await client.getReadWriteLock(name).readLock().acquire();
  for (const key of [name, keys.leases]) await expectEnd(key, LONG_MS / 2, LONG_MS);
  await persist(name, keys.leases);
  expect(await client.getReadWriteLock(name).readLock().forceUnlock()).toBe(true);
  expect(await redis.exists(name, keys.leases)).toBe(0);
  await Promise.allSettled([reader.release(), other.release()]);
});

describe('a lock without expiry whose holder is gone', () => {
  it('is listed, and waited for until it is forced', async () => {
    const ownerId = await deadHolder();
    const listed = [];
    for await (const lock of client.list({ prefix: name })) listed.push(lock);
    expect(listed).toMatchObject([{ name, holders: [{ ownerId, leaseLeftMs: -1 }] }]);
    const next = client.getLock(name).acquire();
    expect(await forceUnlock(client, name)).toEqual({ outcome: 'forced' });
    await (await next).release();
  });

  it('is handed to the first in line when it is forced', async () => {
    await deadHolder();
    const next = client.getFairLock(name).acquire();
    await eventually(async () => {
      expect(await redis.zcard(keys.line)).toBe(1);
    });
    expect(await client.getFairLock(name).forceUnlock()).toBe(true);
    await (await next).release();
  });
});

it('a hash with a field like an owner of other programs is not listed', async () => {
  await redis.hset(name, 'user:7', 1);
  expect(await client.list({ prefix: name }).next()).toEqual({ done: true, value: undefined });
});
