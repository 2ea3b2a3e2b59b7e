// Semaphores on a cluster of three real masters: all keys of a semaphore stay in its slot.
import { Cluster, type Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { eventsOf } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { TestSemaphore } from '../../support/weighted-locks.js';
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
    await Promise.all(cluster.nodes('master').map((node) => node.ping()));
  }, 120_000);

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

  function semaphoreOf(permits: number): TestSemaphore {
    return new TestSemaphore(cluster as unknown as Redis, permits);
  }

  it('permits are handed over in the order of the line', async () => {
    const semaphore = semaphoreOf(3);
    const hold = await semaphore.of(one).acquire({ permits: 3 });
    const first = await semaphore.join(two, { permits: 2 });
    const second = await semaphore.join(one, { permits: 3 });
    const third = await semaphore.join(two);
    await hold.release();
    const got = await first.hold;
    expect(await semaphore.of(two).getWaiters()).toMatchObject([{ permits: 3 }, { permits: 1 }]);
    await got.release();
    await (await second.hold).release();
    await (await third.hold).release();
    await semaphore.isGone();
  });

  it.each(['a}b', 'a{}b', '{tag}:b'])('a name like %s is valid for a semaphore', async (shape) => {
    const semaphore = one.getSemaphore(uniqueName() + shape, { permits: 2 });
    const hold = await semaphore.acquire({ permits: 2 });
    const next = two.getSemaphore(semaphore.name, { permits: 2 }).acquire();
    await expect.poll(() => semaphore.getWaiters()).toHaveLength(1);
    await hold.release();
    await (await next).release();
    expect(await semaphore.availablePermits()).toBe(2);
    expect(await cluster.exists(semaphore.name)).toBe(0);
  });

  it('in a slot that moves, holders lose nothing, and waiters get their turn', async () => {
    const semaphore = semaphoreOf(2);
    const lost = [one, two].map((client) => eventsOf(client, 'lost'));
    const hold = await semaphore.of(one).acquire({ permits: 2 });
    const { hold: next } = await semaphore.join(two, { permits: 2 });
    let releasing: Promise<void> | undefined;
    await mover.move(await mover.slotOf(semaphore.name), () => {
      releasing = hold.release();
      return Promise.resolve();
    });
    await releasing;
    const releasedAtMs = performance.now();
    const got = await next;
    expect(performance.now() - releasedAtMs).toBeLessThan(10_000); // it polls only after 20 s
    await got.release();
    expect(lost).toEqual([[], []]);
    await semaphore.isGone();
  });
});
