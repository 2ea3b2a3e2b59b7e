// A master of a cluster dies for good while a client waits there: its subscriber is closed, and the next outage is reported.
import { Cluster, Redis } from 'ioredis';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient, nextEvent } from '../../support/clients.js';
import { hasShardedChannels, listenedOn, nameAt } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';

/** Longer than a client waits at most before it reconnects. */
const RECONNECTED_MS = 3_000;

const warnings: string[] = [];

beforeEach(() => {
  warnings.length = 0;
  vi.spyOn(process, 'emitWarning').mockImplementation((warning) => {
    warnings.push(String(warning));
  });
});

describe.skipIf(topologiesUnavailable)('when a replica has taken over in a cluster', () => {
  it('the subscriber of the former master is closed, and the next outage causes a warning', async ({
    skip,
  }) => {
    await using servers = await startCluster({ replicaCount: 1 });
    const [master] = servers.masters;
    const [replica] = servers.replicas;
    const admin = new Redis(replica!.url);
    try {
      skip(!(await hasShardedChannels(admin)), 'before Redis 7 there are no sharded channels');
      await using holder = member(servers);
      await using waiter = member(servers);
      holder.on('error', () => undefined);
      const hold = await holder.getLock(nameAt(0)).acquire();
      const waiting = nextEvent(waiter, 'waiting');
      const next = waiter.getLock(hold.lockName).acquire();
      await waiting;
      const listened = (redis: Redis): Promise<number[]> =>
        listenedOn([redis], 'sharded', hold.lockName);
      const former = new Redis(master!.url);
      await expect.poll(() => listened(former)).toEqual([0]);
      former.disconnect();
      // The replica must have the lock: otherwise the waiter would acquire it, and stop listening.
      await expect.poll(() => admin.dbsize(), { timeout: 10_000 }).toBe(1);

      await master!.kill();
      await expect.poll(() => listened(admin), { timeout: 30_000 }).toEqual([0]);
      // (A query for the slots at that moment may have reached it once more.)
      const attempts = (): Promise<number> => attemptsAt(master!.port);
      await expect.poll(attempts, { timeout: 15_000 }).toBe(0);

      const before = warnings.length;
      expect(before).toBeGreaterThan(0);
      // A second outage, in which no node is lost: the subscriber cannot come back.
      await admin.config('SET', 'maxclients', '1');
      await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      const subscriber = `the sharded subscriber connection to Redis (${replica!.host}:${String(replica!.port)})`;
      await expect
        .poll(() => warnings.slice(before), { timeout: 10_000 })
        .toEqual([expect.stringContaining(subscriber)]);
      await admin.config('SET', 'maxclients', '10000');
      await hold.release();
      await (await next).release();
    } finally {
      admin.disconnect();
    }
  }, 90_000);
});

/** Starts from the other masters: a query for the slots may reach a start-up node after its death, too. */
function member({ nodes, masters }: Servers): Holdfast {
  const others = nodes.filter(({ port }) => port !== masters[0]!.port);
  const redis = new Cluster(others, { lazyConnect: true });
  return newClient({ redis, lockWatchdogTimeout: 60_000, commandTimeout: 3_000 });
}

/** How often a client connects to this port, which has no other listener any more. */
async function attemptsAt(port: number): Promise<number> {
  let attempts = 0;
  const listener = createServer((socket) => {
    attempts++;
    socket.on('error', () => undefined).destroy();
  });
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject).listen(port, '127.0.0.1', resolve);
  });
  await sleep(RECONNECTED_MS);
  listener.close();
  return attempts;
}
