// `replicas: n` in a cluster: WAIT goes to the very node and connection that ran the script, wherever that was.
import { Cluster, Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UnavailableError, type Holdfast } from '../../../src/index.js';
import { slotOf } from '../../../src/redis/keys.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { nameAt, SlotMover } from '../../support/cluster.js';

describe.skipIf(topologiesUnavailable)('in a cluster whose first master has a replica', () => {
  let servers: Servers;
  let masters: Redis[];
  let replica: Redis;
  let instance: Cluster;

  beforeAll(async () => {
    servers = await startCluster({ replicaCount: 1 });
    masters = servers.masters.map(({ url }) => new Redis(url));
    replica = new Redis(servers.replicas[0]!.url, { readOnly: true });
    instance = new Cluster(servers.nodes);
    await Promise.all([...masters, replica, instance].map((redis) => redis.ping()));
    await Promise.all(instance.nodes('all').map((node) => node.ping()));
  }, 60_000);

  afterAll(async () => {
    for (const redis of [...masters, replica, instance]) redis.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  function connect(): Holdfast {
    return newClient({
      redis: instance,
      replicas: 1,
      lockWatchdogTimeout: 30_000,
      commandTimeout: 3_000,
    });
  }

  it('an acquisition there is acknowledged, one on another master is not', async () => {
    await using client = connect();
    for (const kind of ['getLock', 'getFairLock'] as const) {
      const lock = client[kind](nameAt(0));
      await using hold = await lock.acquire();
      expect(await replica.hexists(lock.name, hold.ownerId)).toBe(1);
      for (const node of [1, 2]) {
        const elsewhere = client[kind](nameAt(node));
        const error = await rejectionOf(elsewhere.tryAcquire());
        expect(error).toBeInstanceOf(UnavailableError);
        expect(String(error)).toContain('0 of 1 replicas acknowledged it');
        await expect.poll(() => masters[node]!.exists(elsewhere.name)).toBe(0);
      }
    }
  });

  it('many acquisitions at a time, of all slots, are each acknowledged by their own node', async () => {
    await using client = connect();
    const names = Array.from({ length: 120 }, (_, i) => nameAt(i % 3));
    const outcomes = await Promise.allSettled(names.map((name) => client.getLock(name).acquire()));
    expect(outcomes.map(({ status }) => status)).toEqual(
      names.map((_, i) => (i % 3 === 0 ? 'fulfilled' : 'rejected')),
    );
    const holds = outcomes.flatMap((outcome) =>
      outcome.status === 'fulfilled' ? [outcome.value] : [],
    );
    const known = holds.map(({ lockName, ownerId }) => replica.hexists(lockName, ownerId));
    expect(await Promise.all(known)).toEqual(holds.map(() => 1));
    await Promise.all(holds.map((hold) => hold.release()));
  });

  it('WAIT follows a slot that has moved, there and back', async () => {
    await using client = connect();
    await using mover = await SlotMover.of(servers.masters);
    const name = nameAt(1);
    await rejectionOf(client.getLock(name).tryAcquire()); // it knows where the slot is
    await expect.poll(() => masters[1]!.exists(name)).toBe(0);
    await mover.moveBy(2, slotOf(name)); // to the first
    try {
      const hold = await client.getLock(name).acquire();
      expect(await replica.keys(name)).toEqual([name]); // whatever it knows of slots
      await hold.release();
    } finally {
      await mover.moveBy(1, slotOf(name));
    }
    expect(String(await rejectionOf(client.getLock(name).tryAcquire()))).toContain('0 of 1');
    await expect.poll(() => masters[1]!.exists(name)).toBe(0);
  });

  it('WAIT follows a slot that is just moving', async () => {
    await using client = connect();
    const name = nameAt(1);
    await rejectionOf(client.getLock(name).tryAcquire());
    await expect.poll(() => masters[1]!.exists(name)).toBe(0);
    const slot = slotOf(name);
    const [to, from] = await Promise.all([nodeId(0), nodeId(1)]);
    await masters[0]!.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from);
    await masters[1]!.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to);
    try {
      const hold = await client.getLock(name).acquire();
      expect(await replica.keys(name)).toEqual([name]); // whatever it knows of slots
      await hold.release();
    } finally {
      for (const master of [masters[0]!, masters[1]!])
        await master.call('CLUSTER', 'SETSLOT', slot, 'STABLE');
    }
  });

  async function nodeId(node: number): Promise<string> {
    return String(await masters[node]!.call('CLUSTER', 'MYID'));
  }
});
