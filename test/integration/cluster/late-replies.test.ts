// A node of a cluster that answers ioredis only after ioredis has given its connection up: which says that it is ready then, without
// a node to be ready for, and by itself would never connect again.
import type { Cluster } from 'ioredis';
import { once } from 'node:events';
import { createServer, connect, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient } from '../../support/clients.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { clusterBehind } from '../../support/cluster.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

expectOutages();

const WITHIN = { timeout: 10_000 };

describe.skipIf(topologiesUnavailable)('a cluster whose answer comes too late', () => {
  let servers: Servers;
  let proxies: LateProxy[];

  beforeEach(async () => {
    servers = await startCluster();
    proxies = await Promise.all(servers.masters.map(({ port }) => LateProxy.to(port)));
  }, 60_000);

  afterEach(async () => {
    for (const proxy of proxies) proxy.close();
    await servers[Symbol.asyncDispose]();
  });

  it.each([0, 1])(
    'is connected to again, by a client that had given up its ready check (%i replicas asked for)',
    async (replicas) => {
      const { client, ours } = await readyWithoutNodes(replicas);
      expect(client.status).toBe('connecting');
      if (replicas === 0) {
        await expect(client.getLock(uniqueName()).tryLock(10_000)).resolves.toBe(true);
      }
      for (const each of ours) {
        await expect.poll(() => [each.status, each.nodes().length], WITHIN).toEqual(['ready', 3]);
      }
      await expect(client.ping()).resolves.toBeGreaterThanOrEqual(0);
      await client.close();
      expect(ours.map((each) => each.nodes())).toEqual(ours.map(() => []));
    },
    60_000,
  );

  it('is connected to again where an answer to CLUSTER SLOTS comes as late, and tells of nodes', async () => {
    const { client, ours } = await readyWithoutNodes(0);
    for (const each of ours) learnNodes(each);
    await expect(client.getLock(uniqueName()).tryLock(10_000)).resolves.toBe(true);
    await client.close();
  }, 60_000);

  it('is connected to again where a MOVED comes as late, and tells of a node', async () => {
    const { instance, ours } = watchedCluster();
    const client = newClient({ redis: instance, lockWatchdogTimeout: 3_000 });
    await client.ping();
    for (const each of ours) {
      each.disconnect(true);
      learnNodes(each);
    }
    await expect(client.getLock(uniqueName()).tryLock(10_000)).resolves.toBe(true);
    await client.close();
  }, 60_000);

  /** What ioredis does when it is told of nodes, whatever it is doing. */
  function learnNodes(cluster: Cluster): void {
    interface Pool {
      findOrCreate(node: { host: string; port: number }): unknown;
    }
    const { connectionPool } = cluster as unknown as { connectionPool: Pool };
    for (const { port } of proxies) connectionPool.findOrCreate({ host: '127.0.0.1', port });
  }

  /** A client whose ioredis says that it is ready, and has no node. */
  async function readyWithoutNodes(
    replicas: number,
  ): Promise<{ client: Holdfast; ours: readonly Cluster[] }> {
    for (;;) {
      const { instance, ours } = watchedCluster();
      const late = proxies.map((proxy) => proxy.holdRepliesTo(/cluster\r\n\$4\r\ninfo/i));
      const client = newClient({ redis: instance, lockWatchdogTimeout: 3_000, replicas });
      await Promise.all(ours.map((each) => once(each, 'reconnecting'))); // the client has waited long enough
      for (const letGo of late) letGo();
      await Promise.all(ours.map((each) => once(each, 'ready')));
      if (ours.every((each) => each.nodes().length === 0)) return { client, ours };
      await client.close(); // on a busy machine ioredis may have connected anew before the reply came
    }
  }

  /** A Cluster to give to a client, and those that the client makes of it. */
  function watchedCluster(): { instance: Cluster; ours: Cluster[] } {
    const instance = clusterBehind(
      servers,
      proxies.map(({ port }) => port),
    );
    const ours: Cluster[] = [];
    const duplicate = instance.duplicate.bind(instance);
    instance.duplicate = (...args: Parameters<Cluster['duplicate']>) => {
      const made = duplicate(...args);
      ours.push(made);
      return made;
    };
    return { instance, ours };
  }
});

/** Passes everything on, but some replies late: also to a client that has said goodbye, which a busy server may read later. */
class LateProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #held: { command: RegExp; replies: (() => void)[] } | undefined;

  static async to(port: number): Promise<LateProxy> {
    const proxy = new LateProxy(port);
    await once(proxy.#server.listen(0, '127.0.0.1'), 'listening');
    return proxy;
  }

  private constructor(targetPort: number) {
    this.#server = createServer({ allowHalfOpen: true }, (client) => {
      const server = connect({ port: targetPort, host: '127.0.0.1' });
      let isLate = false;
      client.on('data', (chunk) => {
        isLate ||= this.#held?.command.test(String(chunk)) ?? false;
        server.write(chunk);
      });
      server.on('data', (chunk) => {
        const pass = (): void => void client.write(chunk);
        if (isLate && this.#held) this.#held.replies.push(pass);
        else pass();
      });
      for (const [socket, other] of [[client, server] as const, [server, client] as const]) {
        this.#sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => {
          this.#sockets.delete(socket);
          other.destroy();
        });
      }
    });
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** Holds back what is answered on connections by which such a command came, until the function that it returns is called. */
  holdRepliesTo(command: RegExp): () => void {
    const held = { command, replies: [] as (() => void)[] };
    this.#held = held;
    return () => {
      this.#held = undefined;
      for (const pass of held.replies) pass();
    };
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
