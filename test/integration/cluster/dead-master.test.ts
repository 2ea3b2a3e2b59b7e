// A cluster with a dead master that nobody replaces: even a new client can acquire the locks of the other masters.
import { Cluster, Redis } from 'ioredis';
import { expect, it, describe } from 'vitest';
import { newClient } from '../../support/clients.js';
import { nameAt } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster } from '../../support/redis-topologies.js';

interface Place {
  readonly host: string;
  readonly port: number;
}

/** A handshake may take a third of it, 60 s. */
const WATCHDOG_MS = 180_000;
/** Far less than that: a client that asks the dead master goes on to another one at once. */
const PROMPTLY_MS = 20_000;

describe.skipIf(topologiesUnavailable)('a cluster with a dead master', () => {
  it('lets each of 12 new clients lock at another master soon', async () => {
    await using servers = await startCluster();
    const [dead, ...others] = servers.masters;
    await servesWithoutAll(servers.nodes);
    const name = `{${nameAt(2)}}`;
    await dead!.kill();
    const nodes = others.map(({ host, port }) => ({ host, port }));
    const tookMs = await Promise.all(
      Array.from({ length: 12 }, async (_, index) => {
        await using client = newClient({
          redis: new Cluster(nodes, { lazyConnect: true }),
          lockWatchdogTimeout: WATCHDOG_MS,
        });
        client.on('error', () => undefined); // that a node cannot be reached
        const startedAt = performance.now();
        await client.getLock(`${name}:${String(index)}`).withLock(() => undefined);
        return performance.now() - startedAt;
      }),
    );
    expect(tookMs.filter((ms) => ms > PROMPTLY_MS)).toEqual([]);
  }, 60_000);
});

/** The nodes continue to work when some slots belong to nobody. */
async function servesWithoutAll(nodes: readonly Place[]): Promise<void> {
  for (const { host, port } of nodes) {
    const node = new Redis(port, host);
    await node.config('SET', 'cluster-require-full-coverage', 'no');
    node.disconnect();
  }
}
