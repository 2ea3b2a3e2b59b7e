// Independent masters of a test file's own, clients of a Redlock over them, and what each master says of the lock.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect } from 'vitest';
import {
  Holdfast,
  type FencedLock,
  type FencedLockOptions,
  type HoldfastOptions,
  type Lock,
  type RedLockOptions,
} from '../../src/index.js';
import { eventually } from './time.js';
import { counterOf } from './fenced-locks.js';
import { loadScripts } from './lock-commands.js';
import type { RedisServer } from './redis-server.js';
import { startProxy, type TcpProxy } from './tcp-proxy.js';
import { uniqueName } from './unique-name.js';

/**
 * Masters for all tests of a file, up before the first one begins. The file calls `startMasters()` itself: by that,
 * vitest.config.ts knows that it starts servers.
 */
export function redNodes(start: () => Promise<RedisServer[] & AsyncDisposable>): RedNodes {
  let servers: Awaited<ReturnType<typeof start>>;
  const nodes = new RedNodes([]);
  beforeAll(async () => {
    servers = await start();
    nodes.servers.push(...servers);
    await nodes.loadScripts();
  });
  afterAll(async () => {
    await servers[Symbol.asyncDispose]();
  });
  return nodes;
}

/** A lock, or just its name. */
type Named = Pick<Lock, 'name'>;

export class RedNodes {
  readonly servers: RedisServer[];

  constructor(servers: RedisServer[]) {
    this.servers = servers;
  }

  get urls(): string[] {
    return this.servers.map(({ url }) => url);
  }

  /** From then on what clients send can be counted: no script has to be sent in full. */
  async loadScripts(): Promise<void> {
    await Promise.all(this.urls.map((url) => loadScripts(url)));
  }

  /** Asks every master over a connection of its own; undefined where nobody answers. */
  ask<T>(question: (redis: Redis) => Promise<T>): Promise<(T | undefined)[]> {
    return Promise.all(this.urls.map((url) => asked(url, question).catch(() => undefined)));
  }

  /** Who holds the lock on each master; '' for nobody. */
  async owners({ name }: Named): Promise<(string | undefined)[]> {
    return await this.ask(async (redis) => (await redis.hkeys(name)).join());
  }

  /** How often it is held on each master, whoever holds it. */
  async counts({ name }: Named): Promise<(number | undefined)[]> {
    return await this.ask(async (redis) => Number((await redis.hvals(name)).join()));
  }

  /** For how long each master keeps it, in milliseconds. */
  async leftMs({ name }: Named): Promise<(number | undefined)[]> {
    return await this.ask((redis) => redis.pttl(name));
  }

  /** The last token that each master knows; 0: none. */
  async tokens({ name }: Named): Promise<(bigint | undefined)[]> {
    return await this.ask(async (redis) => BigInt((await redis.get(counterOf(name))) ?? 0));
  }

  /** Waits until all have been up for longer than a guard of 1 ms, whatever a server says of its age. */
  async unguarded(): Promise<void> {
    const name = uniqueName('unguarded');
    await using client = await this.client();
    await eventually(async () => {
      await client.fencedLock(name).withLock(() => undefined);
      expect(await this.tokens({ name })).not.toContain(0n);
    });
  }

  /**
   * Waits until no master that answers has anything of this lock: no key, no subscription. What it remembers of its longest lease
   * and last token may be there, but not for ever.
   */
  async nothingLeft({ name }: Named, timeoutMs?: number): Promise<void> {
    await eventually(async () => {
      const left = await this.ask(async (redis) => [
        ...(await keysLeft(redis, name)),
        ...((await redis.pubsub('CHANNELS', `*${name}*`)) as string[]),
      ]);
      expect(left.flat().filter((each) => each !== undefined)).toEqual([]);
    }, timeoutMs);
  }

  /** Somebody of another program has the lock there, in place of whoever had it, and will tell nobody when it is over. */
  async holdBy(owner: string, { name }: Named, indexes: number[], leaseMs = 60_000): Promise<void> {
    const hold = (redis: Redis): Promise<unknown> =>
      redis.multi().del(name).hset(name, owner, 1).pexpire(name, leaseMs).exec();
    await Promise.all(indexes.map((index) => asked(this.urls[index]!, hold)));
  }

  /** The lock's key is gone there, and nobody is told. */
  async remove({ name }: Named, indexes: number[]): Promise<void> {
    await Promise.all(indexes.map((index) => asked(this.urls[index]!, (redis) => redis.del(name))));
  }

  /** One program that reaches the first `count` masters by proxies of its own. */
  async proxied(
    options: Partial<HoldfastOptions> = {},
    count: number = this.servers.length,
  ): Promise<RedClient> {
    const ports = this.servers.slice(0, count).map(({ port }) => port);
    const proxies = await Promise.all(ports.map((port) => startProxy(port)));
    const client = new RedClient(
      proxies.map(({ url }) => url),
      options,
      proxies,
    );
    await client.connected();
    return client;
  }

  /** One program: a Holdfast for each master, all connected; other URLs lead over proxies. */
  async client(
    options: Partial<HoldfastOptions> = {},
    urls: readonly string[] = this.urls,
  ): Promise<RedClient> {
    const client = new RedClient(urls, options);
    await client.connected();
    return client;
  }
}

/** One program that uses Redlocks. */
export class RedClient implements AsyncDisposable {
  readonly members: readonly Holdfast[];
  /** Its own, which go with it. */
  readonly proxies: readonly TcpProxy[];

  constructor(
    urls: readonly string[],
    options: Partial<HoldfastOptions> = {},
    proxies: readonly TcpProxy[] = [],
  ) {
    this.proxies = proxies;
    this.members = urls.map(
      (redis) => new Holdfast({ redis, lockWatchdogTimeout: 3_000, wait: Infinity, ...options }),
    );
  }

  /** The one whose `getRedLock()` is called. */
  get holdfast(): Holdfast {
    return this.members[0]!;
  }

  /** By default for busy machines, and over masters that have only just been started. */
  lock(name: string, options: RedLockOptions = {}): Lock {
    const locks = this.members.map((member) => member.getLock(name));
    return this.holdfast.getRedLock(...locks, {
      nodeTimeout: 1_000,
      restartGuard: false,
      ...options,
    });
  }

  /** The same over fenced locks, which take a guard: of 1 ms. */
  fencedLock(
    name: string,
    options: RedLockOptions = {},
    fencedOptions: FencedLockOptions = {},
  ): FencedLock {
    const locks = this.members.map((member) => member.getFencedLock(name, fencedOptions));
    return this.holdfast.getRedLock(...locks, {
      nodeTimeout: 1_000,
      restartGuard: 1,
      ...options,
    });
  }

  async connected(): Promise<void> {
    const answered = (member: Holdfast): Promise<unknown> =>
      eventually(() => member.getLock('connected').isLocked());
    await Promise.all(this.members.map(answered));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.members.map((member) => member.close()));
    await Promise.all(this.proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
  }
}

async function keysLeft(redis: Redis, name: string): Promise<string[]> {
  const keys = await redis.keys(`*${name}*`);
  const ttlsMs = await Promise.all(keys.map((key) => redis.pttl(key)));
  return keys.filter((key, index) => !isMemory(key) || ttlsMs[index] === -1);
}

function isMemory(key: string): boolean {
  return key.startsWith('holdfast_longest_lease:') || key.startsWith('redisson_lock_token:');
}

async function asked<T>(url: string, question: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url, { retryStrategy: () => null, lazyConnect: true });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    return await question(redis);
  } finally {
    redis.disconnect();
  }
}
