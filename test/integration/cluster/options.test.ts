// A cluster of which the user's instance says more than where it is: what would harm is not heeded, and one bad node harms no other.
import { Cluster, Redis, type ClusterNode, type ClusterOptions } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { failureKind } from '../../../src/redis/failure.js';
import { ioredisDriver } from '../../../src/redis/ioredis/driver.js';
import { slotOf } from '../../../src/redis/slots.js';
import { eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { connectedClient } from '../../support/connected-client.js';
import { fateOf, readyClient } from '../../support/driver-heard.js';
import { eventually } from '../../support/eventually.js';
import { clusterBehind } from '../../support/proxied-cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { SlotMover } from '../../support/slot-mover.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** More than a busy machine takes; who is kept out for good waits so long. */
const WAIT_MS = 20_000;

const AN_HOUR_MS = 3_600_000;

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

  describe('with redirections of its own', () => {
    it.each<ClusterOptions>([{ maxRedirections: 0 }, { retryDelayOnMoved: AN_HOUR_MS }])(
      '%o: a slot that moved is found',
      async (options) => {
        await using one = await readyClient(ioredisDriver(template(servers.nodes, options)));
        await using mover = await SlotMover.of(servers.masters);
        const name = uniqueName();
        await mover.moveBy(1, slotOf(name));
        await eventually(async () => {
          expect(await one.ask('exists', name)).toBe(0);
        });
      },
    );

    it('a command that is refused for now is not put aside for an hour', async () => {
      const redis = template(servers.nodes, { retryDelayOnTryAgain: AN_HOUR_MS });
      await using one = await readyClient(ioredisDriver(redis));
      await using mover = await SlotMover.of(servers.masters);
      const tag = uniqueName();
      const { masters } = one.client.cluster!;
      await Promise.all(masters.map((node) => fateOf(node, 'ping').promise));
      await mover.begin(slotOf(tag));
      const refused = rejectionOf(one.ask('exists', `{${tag}}:a`, `{${tag}}:b`));
      expect(failureKind(await refused)).toBe('transient');
      await mover.move(slotOf(tag));
    });
  });

  it('that may take an hour to say who has which slot is asked again sooner', async () => {
    const proxies = await Promise.all(servers.masters.map(({ port }) => startProxy(port)));
    const ports = proxies.map(({ port }) => port);
    const redis = clusterBehind(servers, ports, { slotsRefreshTimeout: AN_HOUR_MS });
    templates.push(redis);
    for (const proxy of proxies) proxy.holdBack(/^cluster slots/i, 'silence');
    await using client = newClient({ redis, commandTimeout: WAIT_MS });
    await (await client.getLock(uniqueName()).acquire({ wait: WAIT_MS })).release();
    await client.close();
    for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
  });

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
