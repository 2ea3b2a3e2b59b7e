// A master of a cluster dies, and its replica, which did not have the lock, takes over: the holder then learns of the loss.
import { Cluster } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { newClient, nextEvent } from '../../support/clients.js';
import { nameAt } from '../../support/cluster.js';
import { getIn } from '../../support/failovers.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import {
  cutReplication,
  startCluster,
  type Cluster as Servers,
} from '../../support/redis-topologies.js';

// The default: the next renewal is up to 10 s away.
const long = { lockWatchdogTimeout: 30_000 };

describe.skipIf(topologiesUnavailable)('after a failover in a cluster', () => {
  it.each(['watched', 'fixed'])(
    'a %s hold that the replica does not have is lost at about the time another client acquires the lock',
    async (kind) => {
      await using servers = await startCluster({ replicaCount: 1 });
      await using holder = newClient({ redis: clusterOf(servers), ...long });
      await using rival = newClient({ redis: clusterOf(servers), ...long });
      const lock = holder.getLock(nameAt(0));
      await rival.getLock(lock.name).isLocked();
      await cutReplication(servers.masters[0]!);

      const lease = kind === 'fixed' ? 30_000 : -1;
      const hold = await lock.acquire({ lease });
      const lost = nextEvent(holder, 'lost').then(() => performance.now());
      await servers.masters[0]!.kill();
      await getIn(rival.getLock(lock.name));
      const rivalInAtMs = performance.now();

      expect((await lost) - rivalInAtMs).toBeLessThan(2_000);
      expect(hold.signal.aborted).toBe(true);
      expect(['taken', 'deleted']).toContain(
        (hold.signal.reason as { lossReason: string }).lossReason,
      );
    },
    60_000,
  );
});

/** The user's instance: it may know the first master only from the others. */
function clusterOf({ nodes }: Servers): Cluster {
  return new Cluster(nodes, { lazyConnect: true });
}
