// The user's instance of a cluster whose nodes are reached through proxies.
import { Cluster, type ClusterOptions } from 'ioredis';
import type { Cluster as Servers } from './redis-topologies.js';

/** `ports`: where each of the masters is reached. It does not connect before it is used. */
export function clusterBehind(
  { nodes }: Servers,
  ports: readonly number[],
  options: Pick<ClusterOptions, 'slotsRefreshInterval' | 'slotsRefreshTimeout'> = {},
): Cluster {
  const host = '127.0.0.1';
  const natMap = Object.fromEntries(
    nodes.map((node, index) => [
      `${node.host}:${String(node.port)}`,
      { host, port: ports[index]! },
    ]),
  );
  const startupNodes = ports.map((port) => ({ host, port }));
  return new Cluster(startupNodes, { ...options, lazyConnect: true, natMap });
}
