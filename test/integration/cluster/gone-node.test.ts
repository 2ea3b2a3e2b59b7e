// A master of a cluster is gone, and nobody has its slots: that is reported, and everything else works.
import { describe, expect, it } from 'vitest';
import { newClient, rejectionOf } from '../../support/clients.js';
import { eventually, settledWithin } from '../../support/time.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster } from '../../support/redis-topologies.js';
import { clusterBehind, nameAt } from '../../support/cluster.js';
import { startProxy } from '../../support/tcp-proxy.js';

expectOutages();

describe.skipIf(topologiesUnavailable)('when a master of a cluster is gone', () => {
  it('status and ping report it, attempts and queries fail soon, and a waiter acquires the lock when it is back', async () => {
    await using servers = await startCluster();
    await using gone = await startProxy(servers.masters[0]!.port);
    const ports = [gone.port, ...servers.masters.slice(1).map(({ port }) => port)];
    const redis = clusterBehind(servers, ports);
    await using client = newClient({ redis, lockWatchdogTimeout: 30_000 });
    const [lock, elsewhere] = [client.getLock(nameAt(0)), client.getLock(nameAt(1))];
    for (const each of [lock, elsewhere]) await each.withLock(() => 1);
    expect(client.status).toBe('ready');

    gone.refuse();
    gone.cut();
    await eventually(() => {
      expect(client.status).toBe('degraded');
    });
    const address = `127.0.0.1:${String(gone.port)}`;
    const words = `the node ${address} of the cluster cannot be reached`;
    for (const call of [() => client.ping(), () => lock.tryLock(), () => lock.isLocked()]) {
      const error = await settledWithin(rejectionOf(call()), 5_000); // of 10 s that a query may take
      expect(error).toMatchObject({
        code: 'REDIS_UNAVAILABLE',
        message: expect.stringContaining(words) as string,
      });
    }
    await elsewhere.withLock(() => 1);

    const waiting = lock.acquire();
    await gone.accept();
    await (await waiting).release();
    await eventually(async () => {
      expect(client.status).toBe('ready');
      expect(await client.ping()).toBeGreaterThan(0);
    });
  }, 60_000);
});
