// A plain client at a cluster of one master: it has all keys, and still refuses those of several slots in one call.
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { isKeptInLine, KeptLeases, standsInLine } from '../../support/full-memory.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 1_500;

interface Released {
  release(): Promise<void>;
}

/** What can be held under one name, and waited for. */
type Acquire = (client: Holdfast, name: string, lease?: number) => Promise<Released>;

const acquireLock: Acquire = (client, name, lease = -1) => client.getLock(name).acquire({ lease });

const acquirePermit: Acquire = (client, name, lease = -1) =>
  client.getSemaphore(name, { permits: 1 }).acquire({ lease });

/** Locks whose waiters are in line on the server. */
const LINED: readonly Acquire[] = [
  (client, name, lease = -1) => client.getFairLock(name).acquire({ lease }),
  (client, name, lease = -1) => client.getFencedLock(name, { fair: true }).acquire({ lease }),
  acquirePermit,
  (client, name, lease = -1) => client.getReadWriteLock(name).writeLock().acquire({ lease }),
];

const KINDS: readonly Acquire[] = [
  acquireLock,
  (client, name) => client.getFencedLock(name).acquire(),
  (client, name) => client.getReadWriteLock(name).readLock().acquire(),
  ...LINED,
];

const TWICE = [1, 2];

if (topologiesUnavailable !== undefined)
  console.log(`left out, a cluster of one master: ${topologiesUnavailable}`);

describe.skipIf(topologiesUnavailable)('at a cluster of one master, a plain client', () => {
  let servers: Servers;
  let redis: Redis;
  let client: Holdfast;
  let leases: KeptLeases;

  beforeAll(async () => {
    servers = await startCluster({ masterCount: 1, replicaCount: 1 });
    redis = new Redis(servers.masters[0]!.url);
    await redis.ping();
  }, 60_000);

  afterAll(async () => {
    redis.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(() => {
    client = newClient();
    leases = new KeptLeases(client);
  });

  afterEach(async () => {
    await client.close();
  });

  function newClient(options: Partial<HoldfastOptions> = {}): Holdfast {
    const { url } = servers.masters[0]!;
    return new Holdfast({
      redis: url,
      lockWatchdogTimeout: LEASE_MS,
      wait: Infinity,
      commandTimeout: 5_000,
      ...options,
    });
  }

  /** How often keys of several slots were refused. */
  async function refusals(): Promise<number> {
    const info = await redis.info('errorstats');
    return Number(/errorstat_CROSSSLOT:count=(\d+)/.exec(info)?.[1] ?? 0);
  }

  async function releaseAll(holds: readonly Released[]): Promise<void> {
    await Promise.all(holds.map((hold) => hold.release()));
    expect(leases.lost).toEqual([]);
  }

  it('keeps locks of all kinds over several leases, and those with a lease of their own', async () => {
    const wanted = TWICE.flatMap(() => KINDS.map((acquire) => ({ acquire, name: uniqueName() })));
    const holds = await Promise.all(wanted.map(({ acquire, name }) => acquire(client, name)));
    const fixed = await Promise.all(LINED.map((acquire) => acquire(client, uniqueName(), 60_000)));
    await leases.areRenewed(wanted.map(({ name }) => name));
    await releaseAll([...holds, ...fixed]);
  });

  it('keeps a MultiLock', async () => {
    const locks = Array.from({ length: 3 }, () => client.getLock(uniqueName()));
    const hold = await client.getMultiLock(...locks).acquire();
    await leases.areRenewed(locks.map(({ name }) => name));
    await releaseAll([hold]);
  });

  it('keeps Redlocks', async () => {
    const names = Array.from({ length: 3 }, () => uniqueName());
    const redLocks = names.map((name) =>
      client.getRedLock(client.getLock(name), { restartGuard: false }),
    );
    const holds = await Promise.all(redLocks.map((lock) => lock.acquire()));
    await leases.areRenewed(names);
    await releaseAll(holds);
  });

  it('keeps holds that its replica has to acknowledge', async () => {
    await client.close();
    client = newClient({ replicas: 1 });
    leases = new KeptLeases(client);
    const names = Array.from({ length: 3 }, () => uniqueName());
    const holds = await Promise.all(names.map((name) => acquireLock(client, name)));
    await leases.areRenewed(names);
    await releaseAll(holds);
  });

  it('keeps its places in lines of all kinds, and gets its turns', async () => {
    await using holder = newClient({ lockWatchdogTimeout: 60_000 });
    const wanted = TWICE.flatMap(() => LINED.map((acquire) => ({ acquire, name: uniqueName() })));
    const held = await Promise.all(
      wanted.map(({ acquire, name }) => acquire(holder, name, 60_000)),
    );
    const waiting = wanted.map(({ acquire, name }) => acquire(client, name));
    await Promise.all(wanted.map(({ name }) => standsInLine(redis, name)));
    await Promise.all(wanted.map(({ name }) => isKeptInLine(redis, name)));
    await Promise.all(held.map((hold) => hold.release()));
    await releaseAll(await Promise.all(waiting));
  });

  it('keeps locks whose names have braces; a fenced one with odd braces is refused, with the reason', async () => {
    const names = ['{tag}:x', 'a}b', 'x{}y', '}{x'].map((shape) => uniqueName() + shape);
    const holds = await Promise.all(
      names.flatMap((name) => [acquireLock(client, name), acquirePermit(client, `${name}2`)]),
    );
    const fenced = await rejectionOf(client.getFencedLock(`${names[1]!}3`).acquire());
    expect(fenced).toMatchObject({
      code: 'REDIS_UNAVAILABLE',
      message: expect.stringContaining('CROSSSLOT') as string,
    });
    await leases.areRenewed(names.flatMap((name) => [name, `${name}2`]));
    await releaseAll(holds);
  });

  it('is refused keys of several slots once, and sends a call for each slot from then on', async () => {
    const locks = Array.from({ length: 40 }, () => client.getLock(uniqueName()));
    const acquireAll = (): Promise<Released[]> =>
      Promise.all(locks.map((lock) => lock.acquire({ wait: 10_000 })));
    await releaseAll(await acquireAll());
    const before = await refusals();
    expect(before).toBeGreaterThan(0);
    const holds = await acquireAll();
    await leases.areRenewed(locks.map(({ name }) => name));
    await releaseAll(holds);
    expect(await refusals()).toBe(before);
  });
});
