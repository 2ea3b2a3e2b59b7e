// A slot that migrates: its keys are asked for at the node that imports it, whose connection may be lost just then.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { newClient } from '../../support/clients.js';
import { clusterBehind } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('in a slot that migrates', () => {
  let servers: Servers;
  let proxies: TcpProxy[];
  let masters: Redis[];

  beforeAll(async () => {
    servers = await startCluster();
    masters = servers.masters.map(({ url }) => new Redis(url));
    proxies = await Promise.all(servers.masters.map(({ port }) => startProxy(port)));
    await Promise.all(masters.map((master) => master.ping()));
  }, 60_000);

  afterAll(async () => {
    for (const master of masters) master.disconnect();
    for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  it('a connection that is lost while it is asked leaves no rejection to nobody', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    const instance = clusterBehind(
      servers,
      proxies.map(({ port }) => port),
    );
    const client = newClient({ redis: instance, lockWatchdogTimeout: 30_000 });
    await expect.poll(() => client.status).toBe('ready');
    const name = uniqueName();
    const slot = await masters[0]!.cluster('KEYSLOT', name);
    const from = slot <= 5_460 ? 0 : slot <= 10_922 ? 1 : 2;
    const to = (from + 1) % 3;
    const ids = await Promise.all(masters.map((master) => master.call('CLUSTER', 'MYID')));
    await masters[to]!.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(ids[from]));
    await masters[from]!.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(ids[to]));
    try {
      const { happened } = proxies[to]!.holdBack(/^asking/i);
      const acquiring = client.getLock(name).tryLock(10_000);
      await happened;
      await expect(acquiring).resolves.toBe(true);
      await client.getLock(name).unlock();
      await sleep(50); // for the event to come
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
      await client.close();
      for (const index of [from, to])
        await masters[index]!.call('CLUSTER', 'SETSLOT', slot, 'STABLE');
    }
  }, 30_000);
});
