// A client connects to a cluster's nodes when it needs them: a command for one meanwhile was not sent, and is sent once more.
import { Cluster as ClusterClient } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LockLostError } from '../../../src/index.js';
import { slotOf } from '../../../src/redis/keys.js';
import { newClient } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster } from '../../support/redis-topologies.js';
import { SlotMover } from '../../support/cluster.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('a node whose connection is being opened', () => {
  let servers: Cluster;

  beforeAll(async () => {
    servers = await startCluster();
  }, 60_000);

  afterAll(() => servers[Symbol.asyncDispose]());

  it('is asked once more for a command that must not run twice', async () => {
    // A busy machine may take longer than the usual 300 ms to open the cluster and three nodes.
    await using client = newClient({
      redis: new ClusterClient(servers.nodes, { lazyConnect: true }),
      commandTimeout: 5_000,
    });
    const forced = Array.from({ length: 12 }, () => client.getLock(uniqueName()).forceUnlock());
    const outcomes = await Promise.allSettled(forced);
    expect(outcomes).toEqual(outcomes.map(() => ({ status: 'fulfilled', value: false })));
  });

  it('does not hide a lost lock from a release', async () => {
    await using client = newClient({
      redis: new ClusterClient(servers.nodes, { lazyConnect: true }),
    });
    const tag = `{${uniqueName()}}`;
    const names = Array.from({ length: 8 }, (_, n) => `${tag}:${String(n)}`);
    const holds = [];
    for (const name of names) holds.push(await client.getLock(name).acquire({ lease: 60_000 }));
    const admin = new ClusterClient(servers.nodes);
    await admin.del(...names);
    admin.disconnect();
    await using mover = await SlotMover.of(servers.masters);
    await mover.moveBy(1, slotOf(tag.slice(1, -1))); // to a node that the client did not need so far
    const outcomes = await Promise.allSettled(holds.map((hold) => hold.release()));
    const reasons = outcomes.map(
      (one) => (one.status === 'rejected' ? one.reason : undefined) as unknown,
    );
    for (const reason of reasons) expect(reason).toBeInstanceOf(LockLostError);
  });
});
