// An instance of another copy of ioredis works like one of our own, even if it is of the other major version.
import type { Cluster, Redis } from 'ioredis';
import { createRequire } from 'node:module';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { eventsOf, newClient } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const other = process.env['HOLDFAST_LIBRARY'] === 'ioredis@5' ? 'ioredis' : 'ioredis5';
const copy = createRequire(import.meta.url)(other) as {
  Redis: typeof Redis;
  Cluster: typeof Cluster;
};

const instances: (Redis | Cluster)[] = [];

afterEach(() => {
  for (const instance of instances.splice(0)) instance.disconnect();
});

function given<Instance extends Redis | Cluster>(instance: Instance): Instance {
  instances.push(instance);
  return instance;
}

async function lockInTurns(redis: Redis | Cluster): Promise<void> {
  const lockWatchdogTimeout = 30_000; // a busy machine may take more than a second to connect to all nodes
  await using one = newClient({ redis, lockWatchdogTimeout });
  await using two = newClient({ redis, lockWatchdogTimeout });
  const errors = [eventsOf(one, 'error'), eventsOf(two, 'error')];
  const name = uniqueName();
  let inside = 0;
  const section = async (): Promise<void> => {
    expect(++inside).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 5));
    inside--;
  };
  const locks = [one.getLock(name), two.getLock(name), one.getFairLock(name)];
  await Promise.all([...locks, ...locks].map((lock) => lock.withLock({ wait: 20_000 }, section)));
  expect(errors.flat()).toEqual([]);
}

it('a Redis instance of another copy works', async () => {
  await lockInTurns(given(new copy.Redis(inject('redisUrl'))));
});

describe.skipIf(topologiesUnavailable)('with a cluster', () => {
  it('a Cluster instance of another copy works', async () => {
    await using servers = await startCluster();
    await lockInTurns(given(new copy.Cluster(servers.nodes)));
  }, 60_000);
});
