// The servers of a round, and where a client behind proxies finds them.
import { Redis } from 'ioredis';
import { startCluster, startSentinel } from '../../support/redis-topologies.js';
import type { TcpProxy } from '../../support/tcp-proxy.js';
import type { Plan } from '../plan.js';
import type { Address, NatMap } from '../worker/work-order.js';
import { StageServer } from './server.js';

export interface StageTopology extends AsyncDisposable {
  readonly servers: readonly StageServer[];
  /** What a client is told whose proxies these are, one for each server. */
  address(links: readonly TcpProxy[]): Address;
  /** A replica takes over from its master, in order; where there are replicas. */
  failOver?(target: number): Promise<void>;
}

export async function startTopology(plan: Plan): Promise<StageTopology> {
  switch (plan.topology) {
    case 'single':
      return independent(plan, 1, ([link]) => ({ topology: 'single', url: link!.url }));
    case 'masters':
      return independent(plan, plan.masters, (links) => ({
        topology: 'masters',
        urls: links.map(({ url }) => url),
      }));
    case 'sentinel':
      return startWithSentinel();
    case 'cluster':
      return startAsCluster();
  }
}

async function independent(
  { isDurable, clocksAheadMs = [] }: Plan,
  count: number,
  address: StageTopology['address'],
): Promise<StageTopology> {
  const canStep = count === 1 || clocksAheadMs.length > 0;
  const servers = await Promise.all(
    Array.from({ length: count }, (_, index) => StageServer.start({ index, isDurable, canStep })),
  );
  for (const [index, aheadMs] of clocksAheadMs.entries())
    await servers[index]?.clock?.step(aheadMs);
  return {
    servers,
    address,
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    },
  };
}

// A master with a replica, watched by Sentinels.

async function startWithSentinel(): Promise<StageTopology> {
  const setup = await startSentinel();
  const { name, sentinels } = setup;
  const servers = [setup.master, setup.replica].map(
    (redis, index) => new StageServer(index, redis),
  );
  const [sentinel] = sentinels.map(
    (endpoint) => new Redis({ ...endpoint, enableReadyCheck: false, lazyConnect: true }),
  );
  return {
    servers,
    address: (links) => ({ topology: 'sentinel', name, sentinels, natMap: natMap(servers, links) }),
    async failOver() {
      await sentinel!.call('SENTINEL', 'FAILOVER', name);
    },
    async [Symbol.asyncDispose]() {
      sentinel!.disconnect();
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
      await setup[Symbol.asyncDispose]();
    },
  };
}

// A cluster of three masters with a replica each.

async function startAsCluster(): Promise<StageTopology> {
  const cluster = await startCluster({ replicaCount: 3 });
  const servers = [...cluster.masters, ...cluster.replicas].map(
    (redis, index) => new StageServer(index, redis),
  );
  return {
    servers,
    address(links) {
      const nodes = links.slice(0, 3).map(({ host, port }) => ({ host, port }));
      return { topology: 'cluster', nodes, natMap: natMap(servers, links) };
    },
    async failOver(target) {
      const isMaster = await Promise.all(servers.map((server) => server.isMaster()));
      const replicas = servers.filter((_, index) => isMaster[index] === false);
      await replicas[target % replicas.length]?.call('CLUSTER', 'FAILOVER');
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
      await cluster[Symbol.asyncDispose]();
    },
  };
}

// Servers tell clients where other servers are; this is how clients get from there to their own proxies.

/** `links`: one for each server, in the same order. */
function natMap(servers: readonly StageServer[], links: readonly TcpProxy[]): NatMap {
  return Object.fromEntries(
    servers.map(({ redis }, index) => {
      const { host, port } = links[index]!;
      return [`${redis.host}:${redis.port}`, { host, port }];
    }),
  );
}
