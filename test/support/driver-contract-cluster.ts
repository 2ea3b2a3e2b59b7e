// The part of the driver contract about clusters: redirections are followed, nodes are known by their addresses.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ClusterNodes } from '../../src/redis/driver.js';
import { failureKind, redirectionOf } from '../../src/redis/failure.js';
import { slotOf } from '../../src/redis/slots.js';
import { rejectionOf } from './clients.js';
import type { DriverKind } from './driver-contract.js';
import { fateOf, OpenedClient, readyClient, type Fate } from './driver-heard.js';
import { eventually } from './eventually.js';
import { topologiesUnavailable } from './redis-server.js';
import { startCluster, type Cluster } from './redis-topologies.js';
import { SlotMover } from './slot-mover.js';
import { uniqueName } from './unique-name.js';

export function clusterTests({ toCluster }: DriverKind): void {
  describe.skipIf(topologiesUnavailable)('a cluster', () => {
    let servers: Cluster;
    let one: OpenedClient;
    let cluster: ClusterNodes;

    beforeAll(async () => {
      servers = await startCluster();
      one = await readyClient(toCluster(servers.nodes));
      cluster = one.client.cluster!;
      await Promise.all(cluster.masters.map((node) => fateOf(node, 'ping').promise));
    }, 60_000);

    afterAll(async () => {
      await one.client.close();
      await servers[Symbol.asyncDispose]();
    });

    it('is known by the addresses of its masters', () => {
      const addresses = servers.masters.map(({ host, port }) => `${host}:${port}`).sort();
      expect(cluster.masters.map(({ address }) => address).sort()).toEqual(addresses);
      for (const slot of [0, 8_000, 16_383]) expect(addresses).toContain(cluster.masterOf(slot));
      for (const address of addresses) {
        expect(cluster.reachedAt(address)).toBe(address);
        expect(cluster.node(address)).toBe(cluster.node(address));
        expect(cluster.node(address)?.address).toBe(address);
      }
      expect(cluster.node('127.0.0.1:1')).toBeUndefined();
      expect(one.client.endpoint).toBeUndefined();
    });

    it('counts what its nodes have said', async () => {
      const { bytesRead } = one.client;
      await one.ask('echo', 'x'.repeat(1_000));
      expect(one.client.bytesRead).toBeGreaterThanOrEqual(bytesRead + 1_000);
    });

    it('a command goes to the node of its key', async () => {
      const names = Array.from({ length: 30 }, () => uniqueName());
      for (const name of names) {
        expect(await one.ask('eval', "return redis.call('EXISTS', KEYS[1])", 1, name)).toBe(0);
        expect(await one.ask('exists', name)).toBe(0);
      }
    });

    it('a command that finds the connection to its node being opened was not sent', async () => {
      await using fresh = await readyClient(toCluster(servers.nodes));
      const names = Array.from({ length: 30 }, () => uniqueName());
      const fates = names.map((name) => fateOf(fresh.client, 'hset', name, 'f', 'v'));
      await Promise.allSettled(fates.map(({ promise }) => promise));
      for (const [index, { replies, failures }] of fates.entries()) {
        expect(await one.ask('del', names[index]!)).toBe(replies.length);
        expect(failures.map(failureKind)).toEqual(replies.length === 1 ? [] : ['unsent']);
      }
    });

    it('a command that was redirected to a node whose connection is being opened did not run', async () => {
      const name = uniqueName();
      await using fresh = await readyClient(toCluster(servers.nodes));
      const nodes = fresh.client.cluster!;
      await Promise.all(nodes.masters.map((node) => fateOf(node, 'ping').promise));
      nodes.node(nodes.masterOf(slotOf(name))!)!.disconnect();
      await eventually(() => {
        expect(nodes.masters).toHaveLength(2);
      });
      const fates = Array.from({ length: 10 }, (_, n) =>
        fateOf(fresh.client, 'hset', name, String(n), 'v'),
      );
      await Promise.allSettled(fates.map(({ promise }) => promise));
      const failures = fates.flatMap((fate) => fate.failures);
      expect(failures.map(failureKind)).toEqual(failures.map(() => 'unsent'));
      expect(await one.ask('hlen', name)).toBe(fates.length - failures.length);
      await one.ask('del', name);
    });

    it('a node does not follow redirections', async () => {
      const name = uniqueName();
      const home = cluster.masterOf(slotOf(name));
      const other = cluster.masters.find(({ address }) => address !== home)!;
      const failure = await rejectionOf(fateOf(other, 'exists', name).promise);
      expect(redirectionOf(failure)).toEqual({ kind: 'MOVED', address: home });
      expect(failureKind(failure)).toBe('transient');
      expect(await fateOf(cluster.node(home!)!, 'exists', name).promise).toBe(0);
    });

    describe('a slot that migrates', () => {
      /** Asks the node that the slot is on its way to, which is where the other one redirects to. */
      async function askBehindAsking({ client }: OpenedClient): Promise<Fate> {
        await using mover = await SlotMover.of(servers.masters);
        const name = uniqueName();
        const nodes = client.cluster!;
        await mover.begin(slotOf(name));
        const home = nodes.node(nodes.masterOf(slotOf(name))!)!;
        const redirection = redirectionOf(await rejectionOf(fateOf(home, 'exists', name).promise));
        expect(redirection?.kind).toBe('ASK');
        const other = nodes.node(nodes.reachedAt(redirection!.address))!;
        other.asking();
        const fate = fateOf(other, 'exists', name);
        await fate.promise.catch(() => undefined);
        await mover.move(slotOf(name));
        return fate;
      }

      it('is asked for at the other node, behind ASKING', async () => {
        expect(await askBehindAsking(one)).toMatchObject({ replies: [0], failures: [] });
      });

      it('is refused by it to a user who may not send ASKING, and that is told', async () => {
        const user = { username: 'without-asking', password: 'pw' };
        const rules = ['on', `>${user.password}`, '~*', '&*', '+@all', '-asking'];
        for (const { url } of servers.masters) {
          const admin = new Redis(url);
          await admin.call('ACL', 'SETUSER', user.username, ...rules);
          admin.disconnect();
        }
        const limited = await readyClient(toCluster(servers.nodes, user));
        await Promise.all(
          limited.client.cluster!.masters.map((node) => fateOf(node, 'ping').promise),
        );
        const { failures } = await askBehindAsking(limited);
        expect(failures.map(redirectionOf)).toMatchObject([{ kind: 'MOVED' }]);
        await eventually(() => {
          expect(limited.failed.map(String).join()).toMatch(/NOPERM.*asking/);
        });
        await limited.client.close();
      });
    });

    it('a slot that moved is found, and told of', async () => {
      await using mover = await SlotMover.of(servers.masters);
      const name = uniqueName();
      const slot = slotOf(name);
      const former = cluster.masterOf(slot);
      let refreshed = 0;
      cluster.watch({ refreshed: () => refreshed++, nodeLost: () => undefined });
      await mover.moveBy(1, slot);
      expect(await one.ask('exists', name)).toBe(0);
      cluster.refresh();
      await eventually(() => {
        expect(cluster.masterOf(slot)).not.toBe(former);
        expect(refreshed).toBeGreaterThan(0);
      });
    });

    it('a subscription stands at the node that it was made beside', async () => {
      const [node] = cluster.masters;
      const subscriber = new OpenedClient(node!.connectBeside());
      await subscriber.readyTimes(1);
      const channel = uniqueName('channel');
      expect(await subscriber.subscribe(channel)).toBe('told');
      expect(subscriber.client.address).toBe(node!.address);
      const publisher = new Redis(`redis://${node!.address}`);
      await publisher.publish(channel, 'hello');
      await eventually(() => {
        expect(subscriber.messages).toEqual([`${channel}: hello`]);
      });
      publisher.disconnect();
      await subscriber.client.close();
    });
  });
}
