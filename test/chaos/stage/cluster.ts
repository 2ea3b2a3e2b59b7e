// A cluster of three masters with a replica each.
import { startCluster } from '../../support/redis-topologies.js';
import { natMap } from './nat-map.js';
import { StageServer } from './server.js';
import type { StageTopology } from './topology.js';

export async function startAsCluster(): Promise<StageTopology> {
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
