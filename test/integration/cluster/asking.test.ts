// A migrating slot: the client asks the importing node for its keys, and may lose that connection at the same time.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { newClient } from '../../support/clients.js';
import { nameAt, SlotMover, startProxiedCluster } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';

it.skipIf(topologiesUnavailable)(
  'a connection that is lost while it is asked for a migrating slot leaves no unhandled rejection',
  async () => {
    await using cluster = await startProxiedCluster();
    await using mover = await SlotMover.of(cluster.servers.masters);
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    const client = newClient({ redis: cluster.instance(), lockWatchdogTimeout: 30_000 });
    try {
      await expect.poll(() => client.status).toBe('ready');
      const lock = client.getLock(nameAt(0));
      await mover.begin(await mover.slotOf(lock.name));
      const { happened } = cluster.proxies[1]!.holdBack(/^asking/i);
      const acquiring = lock.tryLock(10_000);
      await happened;
      expect(await acquiring).toBe(true);
      await lock.unlock();
      await sleep(50); // for the event to come
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
      await client.close();
    }
  },
  60_000,
);
