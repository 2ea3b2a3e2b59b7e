// A client of one server that turns out to be a node of a cluster: from then on it is a client of the cluster.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Redis } from 'ioredis';
import type { Hold, Holdfast, PermitHold } from '../../../src/index.js';
import { slotOf } from '../../../src/redis/keys.js';
import { eventsOf, newClient, nextEvent } from '../../support/clients.js';
import { eventually, inTime } from '../../support/time.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { nameAt, SlotMover } from '../../support/cluster.js';
import { uniqueName } from '../../support/unique-name.js';

expectOutages();

/** Where Redis is down for a failover, it is back in a second or two. */
const COMEBACK_MS = 15_000;

type Acquire = (client: Holdfast, name: string) => Promise<Hold | PermitHold>;

const KINDS: Record<string, Acquire> = {
  lock: (client, name) => client.getLock(name).acquire(),
  'fair lock': (client, name) => client.getFairLock(name).acquire(),
  'fenced lock': (client, name) => client.getFencedLock(name).acquire(),
  'fair fenced lock': (client, name) => client.getFencedLock(name, { fair: true }).acquire(),
  semaphore: (client, name) => client.getSemaphore(name, { permits: 1 }).acquire(),
  'read lock': (client, name) => client.getReadWriteLock(name).readLock().acquire(),
  'write lock': (client, name) => client.getReadWriteLock(name).writeLock().acquire(),
  MultiLock: (client, name) => client.getMultiLock(client.getLock(name)).acquire(),
};

const OTHER_CALLS: Record<string, (client: Holdfast, name: string) => Promise<unknown>> = {
  'tryLock()': (client, name) => client.getLock(name).tryLock(),
  'tryAcquire() with a wait': (client, name) => client.getLock(name).tryAcquire({ wait: 60_000 }),
  'isLocked()': (client, name) => client.getLock(name).isLocked(),
  'forceUnlock()': (client, name) => client.getLock(name).forceUnlock(),
  'getWaiters()': (client, name) => client.getFairLock(name).getWaiters(),
  'availablePermits()': (client, name) =>
    client.getSemaphore(name, { permits: 1 }).availablePermits(),
};

describe.skipIf(topologiesUnavailable)('a client of one node of a cluster', () => {
  let servers: Servers;
  let mover: SlotMover;
  let client: Holdfast;
  let other: Holdfast;

  beforeAll(async () => {
    servers = await startCluster();
    mover = await SlotMover.of(servers.masters);
  }, 60_000);

  afterAll(async () => {
    await mover[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(() => {
    // They meet only in the cluster.
    [client, other] = [newClient(at(0)), newClient(at(1))];
  });

  afterEach(async () => {
    await Promise.all([client.close(), other.close()]);
  });

  const at = (index: number): { redis: string; lockWatchdogTimeout: number } => ({
    redis: servers.masters[index]!.url,
    lockWatchdogTimeout: 3_000,
  });
  const nameHere = (): string => nameAt(0);
  const nameElsewhere = (): string => nameAt(2);

  describe.each(Object.entries(KINDS))('that wants a %s of another node', (kind, acquire) => {
    it('acquires it, excludes others, and waits for it', async () => {
      const name = nameElsewhere();
      const hold = await acquire(client, name);
      const waiting = nextEvent(other, 'waiting');
      const theirs = acquire(other, name);
      if (kind !== 'read lock') await waiting;
      await hold.release();
      await (await theirs).release();
    });
  });

  it.each(Object.entries(OTHER_CALLS))('gets an answer from %s', async (_, call) => {
    await call(client, nameElsewhere());
  });

  it('gets an answer to each of its gathered calls, wherever their locks are', async () => {
    const names = Array.from({ length: 20 }, (_, i) =>
      i % 2 === 0 ? nameElsewhere() : nameHere(),
    );
    await client.ping();
    const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
    for (const hold of holds) await hold.release();
  });

  it('is ready, and its server answers', async () => {
    expect(await client.ping()).toBeGreaterThan(0);
    expect(client.status).toBe('ready');
  });

  it.each(['lock', 'fair lock', 'write lock'])(
    'that waits there for a %s is woken by clients of the cluster, once it is one itself',
    async (kind) => {
      const acquire = KINDS[kind]!;
      const name = nameHere();
      const lockWatchdogTimeout = 180_000; // so that only a message wakes the waiter in time
      await using holder = newClient({ ...at(1), lockWatchdogTimeout });
      await using waiter = newClient({ ...at(0), lockWatchdogTimeout });
      const hold = await acquire(holder, name);
      const waiting = nextEvent(waiter, 'waiting');
      const theirs = acquire(waiter, name);
      await waiting;
      await waiter.getLock(nameElsewhere()).withLock(() => undefined);
      await sleep(500); // a subscription takes some round trips, and nothing shows when it is confirmed
      await hold.release();
      const woken = await inTime(theirs, 10_000, 'no message woke it');
      await woken.release();
    },
    30_000,
  );

  it.each(['lock', 'fair lock', 'semaphore', 'write lock'])(
    'whose %s moves away keeps it, releases it, and lets others in',
    async (kind) => {
      const acquire = KINDS[kind]!;
      const name = nameHere();
      const hold = await acquire(client, name);
      const lost = eventsOf(client, 'lost');
      const waiting = nextEvent(other, 'waiting');
      const theirs = acquire(other, name);
      await waiting;
      await mover.moveBy(2, slotOf(name));
      await nextEvent(client, 'renewed');
      await hold.release();
      await (await theirs).release();
      expect(lost).toEqual([]);
    },
  );
});

describe.skipIf(topologiesUnavailable)('a client of the only master of a cluster', () => {
  it('finds its successor after a planned failover', async () => {
    await using servers = await startCluster({ masterCount: 1, replicaCount: 1 });
    const [master, replica] = [servers.masters[0]!, servers.replicas[0]!];
    await using client = newClient({ redis: master.url, lockWatchdogTimeout: 3_000 });
    const lock = client.getLock(uniqueName());
    await lock.withLock(() => 1);
    const successor = new Redis(replica.url);
    try {
      await successor.cluster('FAILOVER');
      await eventually(async () => {
        expect(await successor.info('replication')).toContain('role:master');
      });
      const hold = await lock.acquire({ wait: COMEBACK_MS });
      expect(await successor.exists(lock.name)).toBe(1);
      await hold.release();
    } finally {
      successor.disconnect();
    }
  }, 60_000);
});

describe.skipIf(topologiesUnavailable)('a client of one node whose replicas acknowledge', () => {
  it('acquires a lock of another node', async () => {
    await using servers = await startCluster({ masterCount: 2, replicaCount: 2 });
    const [first] = servers.masters;
    await using client = newClient({ redis: first!.url, replicas: 1, lockWatchdogTimeout: 30_000 });
    for (const master of [0, 1]) {
      const hold = await client.getLock(nameAt(master, 2)).acquire({ wait: COMEBACK_MS });
      await hold.release();
    }
  }, 60_000);
});
