// The servers that holdfast and Redisson share: one alone, or a cluster; and how each side is told where they are.
import { Cluster, Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Holdfast, HoldfastOptions, RedisSource } from '../../src/index.js';
import { startChild, type Child } from './child.js';
import { newClient } from './clients.js';
import { listenedOn } from './cluster-listeners.js';
import { eventually } from './eventually.js';
import { startCluster } from './redis-topologies.js';
import { startRedis } from './redis-server.js';

export class SharedServers implements AsyncDisposable {
  /** What Redisson is told. */
  readonly nodes: readonly { host: string; port: number }[];
  /** To look with; open. */
  readonly redis: Redis | Cluster;
  readonly #masters: readonly Redis[];
  readonly #servers: AsyncDisposable;

  constructor(
    servers: AsyncDisposable,
    nodes: SharedServers['nodes'],
    redis: Redis | Cluster,
    masters: readonly Redis[],
  ) {
    this.#servers = servers;
    this.nodes = nodes;
    this.redis = redis;
    this.#masters = masters;
  }

  static start(isCluster: boolean): Promise<SharedServers> {
    return isCluster ? SharedServers.#startCluster() : SharedServers.#startAlone();
  }

  static async #startAlone(): Promise<SharedServers> {
    const server = await startRedis();
    const redis = new Redis(server.url);
    await redis.ping();
    return new SharedServers(server, [server], redis, [redis]);
  }

  static async #startCluster(): Promise<SharedServers> {
    const servers = await startCluster();
    const redis = new Cluster(servers.nodes);
    const masters = servers.masters.map(({ url }) => new Redis(url));
    await Promise.all([redis, ...masters].map((connection) => connection.ping()));
    await Promise.all(redis.nodes('master').map((node) => node.ping()));
    return new SharedServers(servers, servers.nodes, redis, masters);
  }

  get isCluster(): boolean {
    return this.redis instanceof Cluster;
  }

  /** A client of ours, whose waiters nothing but a message wakes; the test closes it. */
  newHoldfast(options: Partial<HoldfastOptions> = {}): Holdfast {
    const redis: RedisSource = this.redis;
    return newClient({ redis, lockWatchdogTimeout: 60_000, commandTimeout: 10_000, ...options });
  }

  /** One in a process of its own: test/support/children/lock-user.ts. */
  startHoldfastChild(options: Partial<HoldfastOptions>): Child {
    const [first] = this.nodes;
    return startChild('lock-user.ts', {
      HOLDFAST_TEST_REDIS_URL: `redis://${first!.host}:${first!.port}`,
      HOLDFAST_TEST_CLUSTER: this.isCluster ? JSON.stringify(this.nodes) : '',
      HOLDFAST_TEST_OPTIONS: JSON.stringify({ commandTimeout: 10_000, ...options }),
    });
  }

  /** Resolves when somebody listens for the release of a lock, and had time for the try that follows: now a message has to come. */
  async isListenedFor(name: string): Promise<void> {
    await eventually(async () => {
      for (const kind of ['sharded', 'classic'] as const)
        if ((await listenedOn(this.#masters, kind, name)).length > 0) return;
      throw new Error(`nobody listens for the release of "${name}"`);
    });
    await sleep(100);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const connection of [this.redis, ...this.#masters]) connection.disconnect();
    await this.#servers[Symbol.asyncDispose]();
  }
}
