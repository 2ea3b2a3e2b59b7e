// The fair lock on a cluster of three real masters: its line, its messages and its hand-overs stay in the slot of the lock.
import { Cluster, type Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { eventsOf, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { FairLine } from '../../support/fair-line.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { SlotMover } from '../../support/cluster.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('on a cluster', () => {
  let servers: Servers;
  let cluster: Cluster;
  let mover: SlotMover;
  let one: Holdfast;
  let two: Holdfast;

  beforeAll(async () => {
    servers = await startCluster();
    cluster = new Cluster(servers.nodes);
    mover = await SlotMover.of(servers.masters);
    await cluster.ping();
    // Otherwise the client would connect to each node when it first needs it, in the middle of a test.
    await Promise.all(cluster.nodes('master').map((node) => node.ping()));
  }, 60_000);

  afterAll(async () => {
    cluster.disconnect();
    await mover[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    const options = { redis: cluster, lockWatchdogTimeout: 60_000, commandTimeout: 5_000 };
    [one, two] = [new Holdfast(options), new Holdfast(options)];
    await Promise.all([one, two].map((client) => client.getLock(uniqueName()).isLocked()));
  });

  afterEach(async () => {
    await Promise.all([one.close(), two.close()]);
  });

  it('a dead waiter is passed over at once, where channels are sharded', async ({ skip }) => {
    const info = await cluster.info('server');
    if (/^redis_version:6/m.test(info))
      skip('before Redis 7 a node does not know of all who listen');
    const name = uniqueName('fair');
    const hold = await one.getFairLock(name).acquire();
    const expiresAtMs = Date.now() + 60_000;
    await cluster.zadd(`holdfast_line:{${name}}`, 1, 'gone:1');
    await cluster.hset(`holdfast_places:{${name}}`, 'gone:1', `1 ${expiresAtMs} 0 1 nobody`);
    const lock = two.getFairLock(name);
    const next = lock.acquire({ wait: 20_000 });
    await eventually(async () => {
      expect(await lock.getWaiters()).toHaveLength(2);
    });
    await hold.release();
    await (await next).release();
    expect(await cluster.exists(name)).toBe(0);
  });

  describe('in a slot that migrates while its keys are still at the old node', () => {
    it('the lock is handed over, even to the last waiter in line', async () => {
      const line = new FairLine(cluster as unknown as Redis);
      const lost = [one, two].map((client) => eventsOf(client, 'lost'));
      const hold = await line.lockOf(one).acquire();
      const first = await line.joinAndStay(two, 'first');
      const second = await line.joinAndStay(one, 'second');
      let ending: Promise<void> | undefined;
      await mover.move(await mover.slotOf(line.name), async () => {
        await hold.release();
        await line.hasTurn('first');
        await first.end();
        await line.hasTurn('second');
        ending = second.end(); // one of three keys is left: the node refuses this as well until the slot has moved
      });
      await ending;
      expect(line.turns).toEqual(['first', 'second']);
      expect(lost).toEqual([[], []]);
      await line.isGone();
    });

    it('the last waiter in line can leave it', async () => {
      const line = new FairLine(cluster as unknown as Redis);
      const hold = await line.lockOf(one).acquire();
      const aborter = new AbortController();
      const only = await line.join(two, 'only', { signal: aborter.signal });
      await mover.move(await mover.slotOf(line.name), async () => {
        aborter.abort();
        expect(await rejectionOf(only.done)).toMatchObject({ code: 'LOCK_ABORTED' });
        await line.hasLength(0);
      });
      expect(await line.holder()).toBe(hold.ownerId);
      await hold.release();
      await line.isGone();
    });

    it('forceUnlock() succeeds as soon as the slot has moved, however long that takes', async () => {
      const lock = one.getLock(uniqueName());
      await lock.acquire();
      let forcing: Promise<boolean> | undefined;
      await mover.move(await mover.slotOf(lock.name), async () => {
        forcing = lock.forceUnlock();
        forcing.catch(() => undefined);
        await sleep(2_500); // ioredis gives up after 16 refusals, in less time than that
      });
      expect(await forcing).toBe(true);
      await cluster.del(`holdfast_forced:{${lock.name}}`);
    });
  });
});
