// The fair lock on a cluster of three real masters: its line, its messages and its hand-overs stay in the slot of the lock.
import { Cluster } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast } from '../../src/index.js';
import { eventually } from '../support/eventually.js';
import { topologiesUnavailable } from '../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../support/redis-topologies.js';
import { uniqueName } from '../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('on a cluster', () => {
  let servers: Servers;
  let cluster: Cluster;
  let one: Holdfast;
  let two: Holdfast;

  beforeAll(async () => {
    servers = await startCluster();
    cluster = new Cluster(servers.nodes);
    await cluster.ping();
    // It would connect to each node when it is first needed, in the middle of a test.
    await Promise.all(cluster.nodes('master').map((node) => node.ping()));
  }, 60_000);

  afterAll(async () => {
    cluster.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    const options = { redis: cluster, lockWatchdogTimeout: 60_000, commandTimeout: 5_000 };
    [one, two] = [new Holdfast(options), new Holdfast(options)];
    await Promise.all([one, two].map((client) => client.getLock(uniqueName()).isLocked()));
  });

  afterEach(async () => {
    await Promise.all([one.close(), two.close()]);
  });

  it('who is gone is passed over at once, where channels are sharded', async ({ skip }) => {
    const info = await cluster.info('server');
    if (/^redis_version:6/m.test(info))
      skip('before Redis 7 a node does not know of all who listen');
    const name = uniqueName('fair');
    const hold = await one.getFairLock(name).acquire();
    const expiresAtMs = Date.now() + 60_000;
    await cluster.zadd(`holdfast_line:{${name}}`, 1, 'gone:1');
    await cluster.hset(`holdfast_places:{${name}}`, 'gone:1', `1 ${expiresAtMs} 0 1 nobody`);
    const lock = two.getFairLock(name);
    const next = lock.acquire({ wait: 20_000 });
    await eventually(async () => {
      expect(await lock.getWaiters()).toHaveLength(2);
    });
    await hold.release();
    await (await next).release();
    expect(await cluster.exists(name)).toBe(0);
  });
});
