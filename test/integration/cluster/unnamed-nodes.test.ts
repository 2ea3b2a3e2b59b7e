// A cluster whose nodes do not tell their addresses: ioredis omits them all, without a reason.
import { Cluster, Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { topologiesUnavailable, type RedisServer } from '../../support/redis-server.js';
import { startCluster } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const ADDRESSES = 'cluster-preferred-endpoint-type';

/** Returns false where there is no such setting, before Redis 7. */
async function setAddresses(nodes: readonly RedisServer[], type: string): Promise<boolean> {
  for (const { url } of nodes) {
    const redis = new Redis(url);
    const reply = await redis.config('SET', ADDRESSES, type).catch(String);
    redis.disconnect();
    if (reply !== 'OK') return false;
  }
  return true;
}

it.skipIf(topologiesUnavailable)(
  'a cluster whose nodes do not tell their addresses is reported as one, and works when they do',
  async ({ skip }) => {
    await using servers = await startCluster();
    const isKnown = await setAddresses(servers.masters, 'unknown-endpoint');
    skip(!isKnown, `before Redis 7 there is no ${ADDRESSES}`);
    const redis = new Cluster(servers.nodes, { lazyConnect: true });
    await using client = newClient({ redis, commandTimeout: 20_000 });
    const errors = eventsOf(client, 'error');
    const lock = client.getLock(uniqueName());
    const words = 'the nodes of the cluster do not tell their addresses';
    expect(await rejectionOf(lock.tryLock())).toMatchObject({
      code: 'REDIS_UNAVAILABLE',
      message: expect.stringContaining(`${words} (${ADDRESSES} unknown-endpoint)`) as string,
    });
    expect(errors.map(({ error }) => error.message)).toEqual([expect.stringContaining(words)]);
    await setAddresses(servers.masters, 'ip');
    await lock.withLock(() => undefined);
    redis.disconnect();
  },
  60_000,
);
