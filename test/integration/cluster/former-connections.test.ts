// A cluster's client connects anew while a former connection to a node is still ending: the new one to the same node stays.
import { Cluster } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { ioredisDriver } from '../../../src/redis/ioredis/driver.js';
import { fateOf, readyClient } from '../../support/driver-heard.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster } from '../../support/redis-topologies.js';

/** Longer than a socket is given to say goodbye. */
const GONE_MS = 500;

describe.skipIf(topologiesUnavailable)(
  'a node of a cluster whose former connection does not end',
  () => {
    it('is left only with its new one', async () => {
      await using servers = await startCluster();
      const template = new Cluster(servers.nodes, { lazyConnect: true });
      const one = await readyClient(ioredisDriver(template));
      const cluster = one.client.cluster!;
      await Promise.all(cluster.masters.map((node) => fateOf(node, 'ping').promise));
      const [slow] = servers.masters;
      await slow!.pause(); // it does not end its side
      one.client.reconnect();
      expect(cluster.masters).toEqual([]);
      await vi.waitUntil(() => cluster.masters.length === 3, { interval: 1 });
      const present = cluster.masters;
      await slow!.resume();
      await one.readyTimes(2);
      await sleep(GONE_MS);
      for (const node of present) expect(cluster.masters.includes(node)).toBe(true);
      await one.client.close();
    }, 30_000);
  },
);
