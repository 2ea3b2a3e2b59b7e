// A cluster of which the user's instance says more than where it is: what would harm is not heeded, and one bad node harms no other.
import { Cluster, Redis, type ClusterNode, type ClusterOptions } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ioredisDriver } from '../../../src/redis/ioredis/driver.js';
import { connectedClient } from '../../support/connected-client.js';
import { eventsOf, newClient } from '../../support/clients.js';
import { readyClient } from '../../support/driver-heard.js';
import { eventually } from '../../support/eventually.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

/** More than a busy machine takes; who is kept out for good waits so long. */
const WAIT_MS = 10_000;

const templates: Cluster[] = [];

function template(nodes: ClusterNode[], options: ClusterOptions = {}): Cluster {
  const redis = new Cluster(nodes, { ...options, lazyConnect: true } as object);
  templates.push(redis);
  return redis;
}

afterEach(() => {
  for (const redis of templates.splice(0)) redis.disconnect();
});

describe.skipIf(topologiesUnavailable)('a cluster', () => {
  let servers: Servers;

  beforeAll(async () => {
    servers = await startCluster();
  }, 60_000);

  afterAll(() => servers[Symbol.asyncDispose]());

  it('of which one start-up node has a name that is not known lets a client in', async () => {
    const redis = template([{ host: 'no.invalid', port: 6379 }, ...servers.nodes]);
    await using client = newClient({ redis, commandTimeout: WAIT_MS });
    const errors = eventsOf(client, 'error');
    await (await client.getLock(uniqueName()).acquire({ wait: WAIT_MS })).release();
    expect(errors).toEqual([]);
  });

  it.each<[string, (node: { host: string; port: number }) => ClusterNode]>([
    ['objects', (node) => ({ ...node, stringNumbers: true })],
    ['URLs', ({ host, port }) => `redis://${host}:${port}?stringNumbers=true`],
  ])(
    'whose start-up nodes are %s that bring options of ours is connected to by ours',
    async (_, startupNode) => {
      const redis = template(servers.nodes.map(startupNode));
      await using one = await readyClient(ioredisDriver(redis));
      await eventually(async () => {
        expect(await one.ask('exists', uniqueName())).toBe(0);
      });
    },
  );

  it('whose nodes are to be left at every error is asked again by a script that they do not know', async () => {
    const redis = template(servers.nodes, { redisOptions: { reconnectOnError: () => true } });
    await using client = await connectedClient({ redis, commandTimeout: WAIT_MS });
    for (const { url } of servers.masters) {
      const admin = new Redis(url);
      await admin.script('FLUSH');
      admin.disconnect();
    }
    await (await client.getLock(uniqueName()).acquire({ wait: WAIT_MS })).release();
  });
});
