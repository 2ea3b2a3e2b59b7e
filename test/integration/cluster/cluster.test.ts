// A cluster of three real masters: keys and channels in one slot, wake-ups across nodes, renewals by slot.
import { Cluster, Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { nextEvent } from '../../support/clients.js';
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
    // Otherwise the client would connect to each node when it first needs it, in the middle of a test.
    await Promise.all(cluster.nodes('master').map((node) => node.ping()));
  }, 60_000);

  afterAll(async () => {
    for (const redis of [cluster, ...masters]) redis.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    const options = {
      redis: cluster,
      lockWatchdogTimeout: 1_500,
      commandTimeout: 5_000,
      wait: Infinity,
    };
    one = new Holdfast(options);
    two = new Holdfast(options);
    await Promise.all([one, two].map((client) => client.getLock(uniqueName()).isLocked()));
  });

  afterEach(async () => {
    await Promise.all([one.close(), two.close()]);
  });

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

  it('the key prefix of a Cluster instance applies', async () => {
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
