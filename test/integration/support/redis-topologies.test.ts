// The groups of servers that tests start: masters, Sentinel, cluster.
import { Cluster, Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, startMasters, startSentinel } from '../../support/redis-topologies.js';

if (topologiesUnavailable) console.warn(`left out: ${topologiesUnavailable}`);

it('masters know nothing of each other', async () => {
  await using masters = await startMasters(3);
  expect(new Set(masters.map(({ port }) => port)).size).toBe(3);
});

describe.skipIf(topologiesUnavailable)('topologies', () => {
  it('Sentinel clients reach the master, and the replica after a failover', async () => {
    await using setup = await startSentinel();
    const redis = new Redis({
      name: setup.name,
      sentinels: setup.sentinels,
      sentinelRetryStrategy: () => 50,
    });
    redis.on('error', () => undefined);
    try {
      await redis.set('before', '1');
      await redis.wait(1, 2_000);
      await setup.failover();
      await redis.set('after', '1');
      expect(redis.stream.remotePort).toBe(setup.replica.port);
      expect(await redis.get('before')).toBe('1');
    } finally {
      redis.disconnect();
    }
  });

  it('cluster clients reach all masters', async () => {
    await using cluster = await startCluster();
    const redis = new Cluster(cluster.nodes);
    try {
      const names = Array.from({ length: 100 }, (_, i) => `name-${i}`);
      await Promise.all(names.map((name) => redis.set(name, '1')));
      const sizes = await Promise.all(redis.nodes('master').map((node) => node.dbsize()));
      expect(sizes).toHaveLength(3);
      expect(sizes.reduce((sum, size) => sum + size)).toBe(100);
    } finally {
      redis.disconnect();
    }
  });
});
