// In a cluster with classic unlock channels any master delivers all messages: another one replaces a master that is unreachable.
import { Cluster, Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient } from '../../support/clients.js';
import { startProxiedCluster, type ProxiedCluster } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

/** Less than a third of the watchdog's lease, after which a waiter polls. */
const HEARD_MS = 15_000;

const OPTIONS = { classicUnlockChannels: true, lockWatchdogTimeout: 90_000 };

describe.skipIf(topologiesUnavailable)('a master that delivers classic channels', () => {
  let cluster: ProxiedCluster;
  let holder: Holdfast;

  beforeEach(async () => {
    cluster = await startProxiedCluster();
    const redis = new Cluster(cluster.servers.nodes, { lazyConnect: true });
    holder = newClient({ redis, ...OPTIONS });
  }, 60_000);

  afterEach(async () => {
    await holder.close();
    await cluster[Symbol.asyncDispose]();
  });

  it('and becomes unreachable is replaced by another one', async () => {
    await using client = newClient({ redis: cluster.instance(), ...OPTIONS });
    client.on('error', () => undefined);
    const names = Array.from({ length: 12 }, () => uniqueName());
    const holds = await Promise.all(names.map((name) => holder.getLock(name).acquire()));
    const waits = names.map((name) => client.getLock(name).acquire());
    await expect.poll(mostListenedTo, { timeout: 10_000 }).toBe(names.length);
    const listened = await counts();
    const home = listened.indexOf(names.length);
    cluster.proxies[home]!.refuse();
    const admin = new Redis(cluster.servers.masters[home]!.url);
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub'); // the connection for commands stays
    admin.disconnect();
    await expect.poll(mostListenedTo, { timeout: HEARD_MS }).toBe(names.length);
    await Promise.all(holds.map((hold) => hold.release()));
    for (const hold of await Promise.all(waits)) await hold.release();
  }, 60_000);

  it('and is unreachable from the start is replaced by another one', async () => {
    // Each chooses a master at random: that none of them chooses the unreachable one happens once in 130 times.
    const clients = Array.from({ length: 12 }, () =>
      newClient({ redis: cluster.instance(), ...OPTIONS }),
    );
    try {
      const holds = await Promise.all(clients.map(() => holder.getLock(uniqueName()).acquire()));
      for (const client of clients) client.on('error', () => undefined);
      await Promise.all(clients.map((client) => client.ping()));
      cluster.proxies[0]!.refuse(); // the connections for commands stay
      const waits = clients.map((client, index) =>
        client.getLock(holds[index]!.lockName).acquire(),
      );
      const locked = Promise.all(waits);
      locked.catch(() => undefined); // when the test fails, all are closed first
      await expect.poll(allListenedTo, { timeout: HEARD_MS }).toBe(clients.length);
      await Promise.all(holds.map((hold) => hold.release()));
      for (const hold of await locked) await hold.release();
    } finally {
      await Promise.all(clients.map((client) => client.close()));
    }
  }, 60_000);

  async function counts(): Promise<number[]> {
    return await Promise.all(
      cluster.servers.masters.map(async ({ url }) => {
        const redis = new Redis(url);
        const channels = (await redis.pubsub('CHANNELS', 'redisson_lock__channel:*')) as string[];
        redis.disconnect();
        return channels.length;
      }),
    );
  }

  async function allListenedTo(): Promise<number> {
    return (await counts()).reduce((sum, count) => sum + count, 0);
  }

  async function mostListenedTo(): Promise<number> {
    return Math.max(...(await counts()));
  }
});
