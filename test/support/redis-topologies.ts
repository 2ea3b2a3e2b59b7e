// Starts groups of Redis servers: independent masters, a master with a replica, a Sentinel set-up, a cluster.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { ProxyFlow } from './proxy-link.js';
import { freePort, startRedis, startRedisProcess, type RedisServer } from './redis-server.js';
import { eventually } from './time.js';

/** Starts `count` servers that know nothing of each other. */
export async function startMasters(count: number): Promise<RedisServer[] & AsyncDisposable> {
  const masters = await Promise.all(Array.from({ length: count }, () => startRedis()));
  return Object.assign(masters, { [Symbol.asyncDispose]: () => disposeAll(masters) });
}

/** A master and its replica, which nobody watches over. */
export interface Pair extends AsyncDisposable {
  readonly master: RedisServer;
  readonly replica: RedisServer;
  /** Turns the roles of the two around, and waits until the one that is the replica now is in step. */
  swap(how: 'REPLICAOF' | 'FAILOVER'): Promise<void>;
}

/** Without waiting for further replicas; they notice soon what they missed. */
const SYNC_AT_ONCE = ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1'];

/** Starts a master with a replica, and waits until that is in step. */
export async function startPair(): Promise<Pair> {
  const master = await startRedisProcess({ args: SYNC_AT_ONCE });
  const replica = await startReplica(master, master);
  return {
    master,
    replica,
    async swap(how) {
      await inStep(master, replica);
      if (how === 'FAILOVER') {
        await call(master, 'FAILOVER', 'TO', replica.host, String(replica.port));
      } else {
        await call(replica, 'REPLICAOF', 'NO', 'ONE');
        await call(master, 'REPLICAOF', replica.host, String(replica.port));
      }
      await inStep(replica, master);
    },
    [Symbol.asyncDispose]: () => disposeAll([replica, master]),
  };
}

/** A master and replicas that learn everything a little later. */
export interface Replicated extends AsyncDisposable {
  readonly master: RedisServer;
  readonly replicas: readonly RedisServer[];
  /** The master's address for its replicas, and for Sentinels: its own, unless its replicas are to learn everything later. */
  readonly address: Address;
}

/** Starts a master with replicas, and waits until they are in step; they learn everything `delayMs` later. */
export async function startReplicated({ replicaCount = 1, delayMs = 0 } = {}): Promise<Replicated> {
  const master = await startRedisProcess({ args: SYNC_AT_ONCE });
  // (With an address for each side, Sentinels would take a master that comes back for a further server.)
  const link = delayMs > 0 ? await openReplicationLink(master, delayMs) : undefined;
  const address = link ?? master;
  const replicas = await Promise.all(
    Array.from({ length: replicaCount }, () => startReplica(master, address)),
  );
  return {
    master,
    replicas,
    address,
    [Symbol.asyncDispose]: async () => {
      await disposeAll([...replicas, master]);
      await link?.[Symbol.asyncDispose]();
    },
  };
}

/** Starts a replica that finds its master at `address`, and waits until it is in step. */
async function startReplica(master: RedisServer, { host, port }: Address): Promise<RedisServer> {
  const args = [...SYNC_AT_ONCE, '--replicaof', host, String(port)];
  const replica = await startRedisProcess({ args });
  await inStep(master, replica);
  return replica;
}

export interface SentinelSetup extends AsyncDisposable {
  /** The name of the group of master and replica. */
  readonly name: string;
  /** What ioredis takes as `sentinels`. */
  readonly sentinels: { host: string; port: number }[];
  /** The three Sentinels themselves, in the same order. */
  readonly watchers: readonly RedisServer[];
  readonly master: RedisServer;
  /** The first one. */
  readonly replica: RedisServer;
  readonly replicas: readonly RedisServer[];
  /** Kills the master and waits until the replica, of which there must be only one, is master for clients too. */
  failover(): Promise<void>;
  /** Has the first Sentinel replace the master, which is well. */
  planFailover(): Promise<void>;
}

/**
 * Starts a master with replicas and three sentinels, and waits until they know each other. The replicas learn everything
 * `delayMs` later than the master.
 */
export async function startSentinel({
  replicaCount = 1,
  delayMs = 0,
} = {}): Promise<SentinelSetup> {
  const name = 'holdfast';
  const servers = await startReplicated({ replicaCount, delayMs });
  const { master, address } = servers;
  const replica = servers.replicas[0]!;
  const sentinels = await Promise.all([1, 2, 3].map(() => startRedisProcess({ mode: 'sentinel' })));
  await Promise.all(sentinels.map((sentinel) => watchMaster(sentinel, name, address)));
  await Promise.all(
    sentinels.map((sentinel) =>
      eventually(async () => {
        const state = await masterState(sentinel, name);
        if (state['num-slaves'] !== String(replicaCount))
          throw new Error('the sentinel does not know the replicas');
        if (state['num-other-sentinels'] !== '2')
          throw new Error('the sentinels do not know each other');
      }, 30_000),
    ),
  );
  return {
    name,
    sentinels: sentinels.map(({ host, port }) => ({ host, port })),
    watchers: sentinels,
    master,
    replica,
    replicas: servers.replicas,
    async planFailover() {
      // It refuses until it has heard from the replicas.
      await eventually(() => call(sentinels[0]!, 'SENTINEL', 'FAILOVER', name), 30_000);
    },
    async failover() {
      await master.kill();
      await eventually(async () => {
        const ports = await Promise.all(sentinels.map((sentinel) => masterState(sentinel, name)));
        if (ports.some(({ port }) => port !== String(replica.port)))
          throw new Error('no failover yet');
      }, 30_000);
    },
    [Symbol.asyncDispose]: async () => {
      await disposeAll(sentinels);
      await servers[Symbol.asyncDispose]();
    },
  };
}

/** Starts a further Sentinel for the same master, which hears nothing of what the others find out, and they nothing of it. */
export async function startDeafSentinel(setup: SentinelSetup): Promise<RedisServer> {
  const { name, watchers, replicas } = setup;
  const [host, port] = (await call(watchers[0]!, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)) as [
    string,
    string,
  ];
  const master = { host, port: Number(port) };
  // Sentinels tell each other on a channel of the servers that they watch.
  const user = ['deaf', 'on', '>secret', '~*', '+@all', 'resetchannels'];
  for (const server of [master, ...replicas]) await call(server, 'ACL', 'SETUSER', ...user);
  const sentinel = await startRedisProcess({ mode: 'sentinel' });
  await watchMaster(sentinel, name, master);
  await call(sentinel, 'SENTINEL', 'SET', name, 'auth-user', 'deaf', 'auth-pass', 'secret');
  return sentinel;
}

export interface Cluster extends AsyncDisposable {
  readonly masters: readonly RedisServer[];
  /** The replicas of the first masters, one of each. */
  readonly replicas: readonly RedisServer[];
  /** What ioredis takes as start-up nodes. */
  readonly nodes: { host: string; port: number }[];
}

/** Starts a cluster whose masters, three by default, have all slots; the first `replicaCount` of them have a replica. */
export async function startCluster({ masterCount = 3, replicaCount = 0 } = {}): Promise<Cluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
  args.push(...SYNC_AT_ONCE);
  const nodeCount = masterCount + replicaCount;
  const nodes = await Promise.all(
    Array.from({ length: nodeCount }, () => startRedisProcess({ args })),
  );
  const masters = nodes.slice(0, masterCount);
  const replicas = nodes.slice(masterCount);
  const [first] = masters;
  const firstSlotOf = (index: number): number => Math.round((16_384 * index) / masterCount);
  await Promise.all(
    masters.map((node, index) =>
      call(node, 'CLUSTER', 'ADDSLOTS', ...numbers(firstSlotOf(index), firstSlotOf(index + 1))),
    ),
  );
  for (const node of nodes.slice(1)) {
    await call(node, 'CLUSTER', 'MEET', first!.host, String(first!.port));
  }
  await Promise.all(
    nodes.map((node) =>
      eventually(async () => {
        const info = String(await call(node, 'CLUSTER', 'INFO'));
        if (!info.includes('cluster_state:ok')) throw new Error('the cluster is not up');
        if (!info.includes(`cluster_known_nodes:${String(nodeCount)}`))
          throw new Error('the nodes do not know each other');
      }, 30_000),
    ),
  );
  await Promise.all(
    replicas.map(async (replica, index) => {
      const masterId = String(await call(masters[index]!, 'CLUSTER', 'MYID'));
      await call(replica, 'CLUSTER', 'REPLICATE', masterId);
      await inStep(masters[index]!, replica);
      // The others have to know, or they would not vote for it.
      await Promise.all(
        nodes.map((node) =>
          eventually(async () => {
            const known = (await call(node, 'CLUSTER', 'REPLICAS', masterId)) as string[];
            if (known.length === 0) throw new Error('the nodes do not know the replica');
          }, 30_000),
        ),
      );
    }),
  );
  return {
    masters,
    replicas,
    nodes: masters.map(({ host, port }) => ({ host, port })),
    [Symbol.asyncDispose]: () => disposeAll(nodes),
  };
}

/** One by one: Redis 6.2 knows no ADDSLOTSRANGE. */
function numbers(from: number, end: number): string[] {
  return Array.from({ length: end - from }, (_, i) => String(from + i));
}

/** From now on the replicas of a master learn nothing new; clients notice nothing. */
export async function cutReplication(master: RedisServer): Promise<void> {
  await call(master, 'ACL', 'SETUSER', 'default', '-psync', '-sync');
  await eventually(async () => {
    await call(master, 'CLIENT', 'KILL', 'TYPE', 'replica');
    const info = String(await call(master, 'INFO', 'replication'));
    if (!info.includes('connected_slaves:0')) throw new Error('a replica is still connected');
  });
}

/** Waits until the replica has all that was written so far: it gets nothing before its first acknowledgement. */
async function inStep(master: RedisServer, replica: RedisServer): Promise<void> {
  const offset = /^master_repl_offset:(\d+)/m.exec(await replication(master))?.[1];
  await eventually(async () => {
    const info = await replication(replica);
    const has = Number(/^slave_repl_offset:(\d+)/m.exec(info)?.[1] ?? -1);
    if (!info.includes('master_link_status:up') || has < Number(offset))
      throw new Error('the replica is not in step');
    // Until the first acknowledgement, a second later perhaps, the master does not count it.
    if (!(await replication(master)).includes(`port=${replica.port},state=online`))
      throw new Error('the master does not know that the replica is in step');
  }, 30_000);
}

async function replication(server: RedisServer): Promise<string> {
  return String(await call(server, 'INFO', 'replication'));
}

async function watchMaster(sentinel: RedisServer, name: string, master: Address): Promise<void> {
  await call(sentinel, 'SENTINEL', 'MONITOR', name, master.host, String(master.port), '2');
  await call(sentinel, 'SENTINEL', 'SET', name, 'down-after-milliseconds', '500');
  await call(sentinel, 'SENTINEL', 'SET', name, 'failover-timeout', '3000');
}

async function masterState(sentinel: RedisServer, name: string): Promise<Record<string, string>> {
  const pairs = (await call(sentinel, 'SENTINEL', 'MASTER', name)) as string[];
  return Object.fromEntries(
    Array.from({ length: pairs.length / 2 }, (_, i) => [pairs[2 * i], pairs[2 * i + 1]]),
  ) as Record<string, string>;
}

async function call(server: Address, command: string, ...args: string[]): Promise<unknown> {
  const { Redis } = await import('ioredis'); // only here: startMasters() needs no client library
  const redis = new Redis({
    host: server.host,
    port: server.port,
    enableReadyCheck: false,
    retryStrategy: () => null,
  });
  try {
    return await redis.call(command, ...args);
  } finally {
    redis.disconnect();
  }
}

async function disposeAll(servers: readonly RedisServer[]): Promise<void> {
  await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
}

// The way to a master for everybody, which is slow for its replicas only; what is under way to them is lost with the master.

/** Where a server is. */
interface Address {
  readonly host: string;
  readonly port: number;
}

/** Opens a link to a master. Its replicas, which must use it, learn everything `delayMs` later. */
async function openReplicationLink(target: Address, delayMs: number): Promise<ReplicationLink> {
  const link = new ReplicationLink(await freePort(), target, delayMs);
  await link.listen();
  return link;
}

class ReplicationLink implements AsyncDisposable {
  readonly host = '127.0.0.1';
  readonly port: number;
  readonly #target: Address;
  readonly #delayMs: number;
  readonly #listener: Server = createServer((client) => {
    this.#pass(client);
  });
  readonly #sockets = new Set<Socket>();

  constructor(port: number, target: Address, delayMs: number) {
    this.port = port;
    this.#target = target;
    this.#delayMs = delayMs;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#listener.once('error', reject).listen(this.port, this.host, resolve);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise(setImmediate);
  }

  #pass(client: Socket): void {
    const server = connect(this.#target);
    const toServer = new ProxyFlow(server);
    const toClient = new ProxyFlow(client);
    client.on('data', (bytes: Buffer) => {
      if (bytes.includes('PSYNC')) toClient.delayMs = this.#delayMs; // it is a replica
      toServer.send(bytes);
    });
    server.on('data', (bytes: Buffer) => {
      toClient.send(bytes);
    });
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.setNoDelay();
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        toServer.end();
        toClient.end();
        client.destroy();
        server.destroy();
      });
    }
  }
}
