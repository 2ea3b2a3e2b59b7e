// A node of a cluster that falls silent on an open connection, while other nodes answer.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient } from '../../support/clients.js';
import { nameAt, startProxiedCluster, type ProxiedCluster } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)(
  'a node of a cluster that falls silent on a connection',
  () => {
    let cluster: ProxiedCluster;

    beforeEach(async () => {
      cluster = await startProxiedCluster();
    }, 60_000);

    afterEach(() => cluster[Symbol.asyncDispose]());

    it.each([
      { when: 'as soon as it is connected to', command: /./ },
      { when: 'when it is asked for a lock', command: /^evalsha /i },
    ])('gets a new connection $when', async ({ when, command }) => {
      const { proxies } = cluster;
      await using client = newClient({ redis: cluster.instance(), lockWatchdogTimeout: 3_000 });
      await connectEverywhere(client);
      const [here, elsewhere] = [nameAt(0), nameAt(1)];
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
    });

    it('with all others gets a new connection before a lease ends', async () => {
      await using client = newClient({ redis: cluster.instance(), lockWatchdogTimeout: 4_500 });
      await connectEverywhere(client);
      const hold = await client.getLock(uniqueName()).acquire(); // no answers of the other nodes are due
      for (const proxy of cluster.proxies) proxy.swallowConnections();
      await sleep(6_000);
      expect(hold.signal.aborted).toBe(false);
      await hold.release();
    });

    async function connectEverywhere(client: Holdfast): Promise<void> {
      const names = Array.from({ length: 30 }, () => uniqueName());
      await Promise.all(names.map((name) => client.getLock(name).withLock(() => undefined)));
    }
  },
);
