// A cluster of three real masters: keys and channels in one slot, wake-ups across nodes, renewals by slot.
import { Cluster, Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { eventsOf, nextEvent } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { listenedOn } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('on a cluster', () => {
  let servers: Servers;
  let masters: Redis[];
  let cluster: Cluster;
  let one: Holdfast;
  let two: Holdfast;

  beforeAll(async () => {
    servers = await startCluster();
    masters = servers.masters.map(({ url }) => new Redis(url));
    cluster = new Cluster(servers.nodes);
    await Promise.all([cluster, ...masters].map((redis) => redis.ping()));
    // It would connect to each node when it is first needed, in the middle of a test.
    await Promise.all(cluster.nodes('master').map((node) => node.ping()));
  }, 60_000);

  afterAll(async () => {
    for (const redis of [cluster, ...masters]) redis.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    one = new Holdfast({ redis: cluster, lockWatchdogTimeout: 1_500, commandTimeout: 5_000 });
    two = new Holdfast({ redis: cluster, lockWatchdogTimeout: 1_500, commandTimeout: 5_000 });
    await Promise.all([one, two].map((client) => client.getLock(uniqueName()).isLocked()));
  });

  afterEach(async () => {
    await Promise.all([one.close(), two.close()]);
  });

  async function isListenedFor(name: string): Promise<boolean> {
    const sharded = await listenedOn(masters, 'sharded', name);
    return sharded.length > 0 || (await listenedOn(masters, 'classic', name)).length > 0;
  }

  it('locks of 30 names exclude and wake each other, on all nodes', async () => {
    // Who waits looks for itself only after 10 s.
    const patient = { redis: cluster, lockWatchdogTimeout: 30_000, commandTimeout: 5_000 };
    await using holder = new Holdfast(patient);
    await using waiter = new Holdfast(patient);
    const names = Array.from({ length: 30 }, () => uniqueName());
    const holds = await Promise.all(names.map((name) => holder.getLock(name).acquire()));
    const waiting = eventsOf(waiter, 'waiting');
    const theirs = names.map((name) => waiter.getLock(name).acquire());
    await expect.poll(() => waiting.length).toBe(names.length);
    await eventually(async () => {
      const found = await Promise.all(names.map(isListenedFor));
      expect(found.every(Boolean)).toBe(true);
    });
    await sleep(300); // all have looked once more after they subscribed
    const before = performance.now();
    await Promise.all(holds.map((hold) => hold.release()));
    const acquired = await Promise.all(theirs);
    expect(performance.now() - before).toBeLessThan(5_000); // by message
    await Promise.all(acquired.map((hold) => hold.release()));
  }, 30_000);

  it.each(['{tag}:x', '{}{a}', 'x{}y', '}{x', 'a}b', '{{a}}', 'a{b'])(
    'a name like %j works: nested, waited for, renewed, forced',
    async (shape) => {
      const name = `${uniqueName()}${shape}`;
      const lock = one.getLock(name);
      const hold = await lock.acquire();
      const waiting = nextEvent(two, 'waiting');
      const theirs = two.getLock(name).acquire();
      await waiting;
      await hold.run(() => lock.withLock(() => 1));
      await nextEvent(one, 'renewed');
      await hold.release();
      const lost = nextEvent(two, 'lost');
      await theirs;
      expect(await lock.forceUnlock()).toBe(true);
      expect(await lost).toMatchObject({ lockName: name, lossReason: 'forced' });
    },
    15_000,
  );

  it('200 watched holds over all slots are renewed, none is lost', async () => {
    const lost = eventsOf(one, 'lost');
    const names = Array.from({ length: 200 }, () => uniqueName());
    const holds = await Promise.all(names.map((name) => one.getLock(name).acquire()));
    const renewed = eventsOf(one, 'renewed');
    await expect.poll(() => renewed.length, { timeout: 10_000 }).toBeGreaterThan(800);
    expect(new Set(renewed.map(({ lockName }) => lockName)).size).toBe(200);
    expect(lost).toEqual([]);
    await Promise.all(holds.map((hold) => hold.release()));
    expect(lost).toEqual([]);
  }, 20_000);

  it('a cluster’s key prefix is honoured', async () => {
    const prefixed = new Cluster(servers.nodes, { keyPrefix: 'app:' });
    await prefixed.ping();
    await using client = new Holdfast({ redis: prefixed });
    const lock = client.getLock(uniqueName());
    await lock.withLock(async () => {
      expect(await cluster.exists(`app:${lock.name}`)).toBe(1);
    });
    prefixed.disconnect();
  });
});
