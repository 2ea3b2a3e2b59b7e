// A fenced lock has two keys, and a fair one more: while their slot moves to another node, the server refuses commands for keys that are
// not all at one node (TRYAGAIN). Such commands are repeated until the wait is over or the slot has moved.
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FencedHold, Lock } from '../../../src/index.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { expectGrowing, FENCED_KINDS, passThrough } from '../../support/fenced-locks.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { SlotMover } from '../../support/cluster.js';
import { uniqueName } from '../../support/unique-name.js';

/** In the words of the node that has the slot, or of the one that will have it. */
const REFUSED = /not acquired: Redis refused for \d+ ms \(last error: .*(TRYAGAIN|MOVED|ASK)/;

const options = { lockWatchdogTimeout: 30_000, commandTimeout: 4_000 };

if (topologiesUnavailable !== undefined)
  console.log(`moving-slots.test.ts: left out: ${topologiesUnavailable}`);

describe.skipIf(topologiesUnavailable)('while its slot moves', () => {
  let servers: Servers;
  let cluster: Cluster;
  let mover: SlotMover;

  beforeAll(async () => {
    servers = await startCluster();
    cluster = new Cluster(servers.nodes);
    await cluster.ping();
    await Promise.all(cluster.nodes('master').map((node) => node.ping()));
    mover = await SlotMover.of(servers.masters);
  }, 60_000);

  afterAll(async () => {
    cluster.disconnect();
    await mover[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  /** A single attempt or a short wait reports why; a longer wait acquires the lock when the slot has moved. */
  async function isRefused(lock: Lock): Promise<void> {
    const calls = [lock.tryLock(), lock.acquire({ wait: 3_000 })];
    for (const error of await Promise.all(calls.map((call) => rejectionOf(call))))
      expect(error, String(error)).toMatchObject({
        code: 'REDIS_UNAVAILABLE',
        lockName: lock.name,
        message: expect.stringMatching(REFUSED) as string,
      });
  }

  it.each(FENCED_KINDS)(
    '$title is refused, with the reason, within the wait, and granted when the slot has moved',
    async (kind) => {
      await using client = newClient({ redis: cluster, ...options });
      const used = client.getFencedLock(uniqueName(), kind.options);
      const before = await passThrough(used);
      let waiting: Promise<FencedHold> | undefined;
      await mover.move(await mover.slotOf(used.name), async () => {
        await isRefused(used);
        waiting = used.acquire();
      });
      const hold = await waiting!;
      await hold.release();
      expectGrowing([before, hold.token, await passThrough(used)]);
    },
  );

  it('a fair lock without tokens is refused as well', async () => {
    await using client = newClient({ redis: cluster, ...options });
    const fair = client.getFairLock(uniqueName());
    await mover.move(await mover.slotOf(fair.name), () => isRefused(fair));
    await fair.withLock(() => undefined);
  });

  it('a lock that is held stays held, and can be released', async () => {
    await using client = newClient({ redis: cluster, ...options });
    const lock = client.getFencedLock(uniqueName());
    const hold = await lock.acquire();
    await mover.move(await mover.slotOf(lock.name), async () => {
      expect(hold.remaining()).toBeGreaterThan(0);
      await hold.release();
    });
    expectGrowing([hold.token, await passThrough(lock)]);
  });
});
