// The shortest way through the whole public interface, with more than one server.
import { Cluster } from 'ioredis';
import { describe, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, startSentinel } from '../../support/redis-topologies.js';
import { worksBetween } from '../../support/clients.js';

describe.skipIf(topologiesUnavailable)('a lock', () => {
  it('works on Sentinel', async () => {
    await using setup = await startSentinel();
    const redis = { name: setup.name, sentinels: setup.sentinels };
    await using first = new Holdfast({ redis });
    await using second = new Holdfast({ redis });
    await worksBetween(first, second);
  });

  it('works on a cluster', async () => {
    await using setup = await startCluster();
    const redis = new Cluster(setup.nodes);
    try {
      await using first = new Holdfast({ redis });
      await using second = new Holdfast({ redis });
      for (let i = 0; i < 5; i++) await worksBetween(first, second);
    } finally {
      redis.disconnect();
    }
  });
});
