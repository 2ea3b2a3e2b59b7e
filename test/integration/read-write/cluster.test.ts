// Read-write locks on a cluster of three real masters: all keys of a lock stay in its slot.
import { Cluster } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { settledWithin } from '../../support/time.js';
import { SlotMover } from '../../support/cluster.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('on a cluster', () => {
  let servers: Servers;
  let cluster: Cluster;
  let one: Holdfast;
  let two: Holdfast;

  beforeAll(async () => {
    servers = await startCluster();
    cluster = new Cluster(servers.nodes);
    await cluster.ping();
    await Promise.all(cluster.nodes('master').map((node) => node.ping()));
  }, 60_000);

  afterAll(async () => {
    cluster.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    const options = { redis: cluster, lockWatchdogTimeout: 30_000, commandTimeout: 5_000 };
    [one, two] = [new Holdfast(options), new Holdfast(options)];
    await Promise.all([one, two].map((client) => client.getLock(uniqueName()).isLocked()));
  });

  afterEach(async () => {
    await Promise.all([one.close(), two.close()]);
  });

  it('readers and writers of several names acquire the lock, and one downgrades', async () => {
    const locks = Array.from({ length: 6 }, () => new TestReadWriteLock(cluster));
    await Promise.all(
      locks.map(async (lock) => {
        const write = await lock.writeLock(one).acquire();
        const { hold: reads } = await lock.join(two, 'read');
        const { hold: writes } = await lock.join(two, 'write');
        const read = await write.run(() => lock.readLock(one).acquire());
        await write.release();
        await (await reads).release();
        expect(await lock.held()).toBe('R');
        await read.release();
        const last = await writes;
        expect(await lock.held()).toBe('W');
        expect(await lock.writeLock(one).forceUnlock()).toBe(true);
        await expect(last.release()).rejects.toMatchObject({ lossReason: 'forced' });
        await lock.isGone();
      }),
    );
  });

  it('a downgrade that the new node of a slot has missed is repeated there', async () => {
    await using mover = await SlotMover.of(servers.masters);
    const lock = new TestReadWriteLock(cluster);
    const write = await lock.writeLock(one).acquire();
    const read = await write.run(() => lock.readLock(one).acquire());
    await write.release();
    await lock.undowngrade();
    const { hold } = await lock.join(two, 'read');
    await mover.moveBy(1, await mover.slotOf(lock.name));
    await lock.readLock(one).isLocked(); // the client finds the slot elsewhere
    expect(await settledWithin(hold, 5_000)).toMatchObject({ lockName: lock.name });
    await (await hold).release();
    await read.release();
    await lock.isGone();
  });
});
