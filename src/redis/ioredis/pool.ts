// The connections to the nodes of a cluster, which ioredis would drop, or keep, where it must not.

import type { Cluster, Redis } from 'ioredis';

/**
 * A node that was restarted with nothing answers `CLUSTER SLOTS` with an empty list, which ioredis takes for the latest: it would
 * leave all nodes, also those that are well. It ends its own connections with an empty list too, but never while it is ready. Another
 * ioredis, which has no such pool, is left as it is.
 */
export function withEmptyAnswersIgnored(cluster: Cluster): Cluster {
  const pool = poolOf(cluster);
  const reset = pool?.reset?.bind(pool);
  if (pool && reset)
    pool.reset = (nodes) => {
      if (nodes.length > 0 || cluster.status !== 'ready') reset(nodes);
    };
  return cluster;
}

/**
 * When a connection to a node has ended, ioredis 5 leaves whatever it has for that node by then: a new connection too, which nobody would
 * ever close, and what was sent by it would be awaited for ever. ioredis 6 looks whether it is the one that has ended.
 */
export function withSuccessorsKept(cluster: Cluster): Cluster {
  const pool = poolOf(cluster);
  if (!pool?.reset || !pool.removeNode || pool.recreate) return cluster;
  const reset = pool.reset.bind(pool);
  const removeNode = pool.removeNode.bind(pool);
  let isReset = false;
  pool.reset = (nodes) => {
    isReset = true;
    try {
      reset(nodes);
    } finally {
      isReset = false;
    }
  };
  pool.removeNode = (key) => {
    if (isReset || pool.getInstanceByKey?.(key)?.status === 'end') removeNode(key);
  };
  return cluster;
}

/** What ioredis keeps to itself: the connections to the nodes of a cluster, which it leaves but for those that it is told of. */
interface Pool {
  reset?: (nodes: readonly unknown[]) => void;
  removeNode?: (key: string) => void;
  getInstanceByKey?: (key: string) => Redis | undefined;
  /** ioredis 6 has it. */
  recreate?: unknown;
}

function poolOf(cluster: Cluster): Pool | undefined {
  return (cluster as unknown as { connectionPool?: Pool }).connectionPool;
}
