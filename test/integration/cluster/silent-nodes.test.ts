// A node of a cluster that says nothing any more on a connection that stays open, while other nodes answer.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient } from '../../support/clients.js';
import { clusterBehind } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)(
  'a node of a cluster that falls silent on a connection',
  () => {
    let servers: Servers;
    let proxies: TcpProxy[];

    beforeEach(async () => {
      servers = await startCluster();
      proxies = await Promise.all(servers.masters.map(({ port }) => startProxy(port)));
    }, 60_000);

    afterEach(async () => {
      for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
      await servers[Symbol.asyncDispose]();
    });

    it.each([
      { when: 'as soon as it is connected to', command: /./ },
      { when: 'when it is asked for a lock', command: /^evalsha /i },
    ])('$when is connected to anew', async ({ when, command }) => {
      const redis = clusterBehind(
        servers,
        proxies.map(({ port }) => port),
      );
      const client = newClient({ redis, lockWatchdogTimeout: 3_000 });
      await connectEverywhere(client);
      const [here, elsewhere] = await namesBehind(client, proxies[0]!);
      const silent = proxies[0]!.holdBack(command, 'silence');
      if (when === 'as soon as it is connected to') proxies[0]!.cut();
      const acquired = client.getLock(here).tryLock(10_000);
      const isOver = acquired.then(
        () => true,
        () => true,
      );
      const isAskedMeanwhile = async (): Promise<boolean> =>
        await client.getLock(elsewhere).withLock(() => sleep(20, false));
      while (!(await Promise.race([isOver, isAskedMeanwhile()])));
      await silent.happened;
      await expect(acquired).resolves.toBe(true);
      await client.close();
    });

    it('with all others is connected to anew before a lease ends', async () => {
      const redis = clusterBehind(
        servers,
        proxies.map(({ port }) => port),
      );
      const client = newClient({ redis, lockWatchdogTimeout: 3_000 });
      await connectEverywhere(client);
      const hold = await client.getLock(uniqueName()).acquire(); // of the other nodes nothing is expected
      for (const proxy of proxies) proxy.swallowConnections();
      await sleep(6_000);
      expect(hold.signal.aborted).toBe(false);
      await hold.release();
      await client.close();
    });

    async function connectEverywhere(client: Holdfast): Promise<void> {
      const names = Array.from({ length: 30 }, () => uniqueName());
      await Promise.all(names.map((name) => client.getLock(name).withLock(() => undefined)));
    }

    /** The name of a lock that this proxy leads to, and of one that it does not. */
    async function namesBehind(client: Holdfast, proxy: TcpProxy): Promise<[string, string]> {
      let here: string | undefined;
      let elsewhere: string | undefined;
      while (here === undefined || elsewhere === undefined) {
        const name = uniqueName();
        const before = proxy.bytesUpstream;
        await client.getLock(name).withLock(() => undefined);
        if (proxy.bytesUpstream > before) here = name;
        else elsewhere = name;
      }
      return [here, elsewhere];
    }
  },
);
