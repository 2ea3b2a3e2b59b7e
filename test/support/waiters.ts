// Looks at those who wait for a lock from the server's side: their subscriptions, and the scripts they run.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { Holdfast, type Lock } from '../../src/index.js';
import { eventsOf } from './clients.js';
import { eventually } from './eventually.js';
import { loadScripts } from './lock-commands.js';
import { recordCommands } from './recorded-commands.js';
import type { RedisServer } from './redis-server.js';
import { uniqueName } from './unique-name.js';

/**
 * A server of the test file's own that knows all scripts, so that what clients send can be counted; up before the first
 * test begins. The file calls `startRedis()` itself: by that, server-needs.ts knows that it starts servers.
 */
export function watchedServer(start: () => Promise<RedisServer>): WatchedServer {
  const watched = new WatchedServer();
  beforeAll(async () => {
    await watched.open(await start());
  });
  afterAll(async () => {
    await watched[Symbol.asyncDispose]();
  });
  return watched;
}

interface HolderAndWaiter {
  readonly holder: Holdfast;
  readonly waiter: Holdfast;
  /** The same lock, as the one and as the other has it. */
  readonly held: Lock;
  readonly awaited: Lock;
}

class WatchedServer implements AsyncDisposable {
  redis!: Redis;
  #server!: RedisServer;

  async open(server: RedisServer): Promise<void> {
    this.#server = server;
    await loadScripts(server.url);
    this.redis = new Redis(server.url);
    await this.redis.ping(); // connected, so that no test finds this connection new
  }

  get url(): string {
    return this.#server.url;
  }

  get port(): number {
    return this.#server.port;
  }

  /** Two clients and one lock, which the first is to hold and the second, from there, to wait for. */
  async holderAndWaiter(waiterUrl = this.url): Promise<HolderAndWaiter> {
    const [holder, waiter] = await Promise.all([this.client(), this.client(waiterUrl)]);
    const name = uniqueName();
    return { holder, waiter, held: holder.getLock(name), awaited: waiter.getLock(name) };
  }

  /** A client that is connected, with the lease of 30 s: a lost wake-up shows as a stall. */
  async client(url = this.url): Promise<Holdfast> {
    const client = new Holdfast({ redis: url, commandTimeout: 5_000 });
    await client.getLock('connected').isLocked();
    return client;
  }

  /** For each channel of this lock, how many connections listen. */
  async subscriptions({ name }: Lock): Promise<number[]> {
    const channels = (await this.redis.pubsub('CHANNELS', `*${name}*`)) as string[];
    const counts = (await this.redis.pubsub('NUMSUB', ...channels)) as (string | number)[];
    return counts.filter((count) => typeof count === 'number');
  }

  /** How many connections have subscribed to anything. */
  async subscribers(): Promise<number> {
    const clients = (await this.redis.call('CLIENT', 'LIST', 'TYPE', 'pubsub')) as string;
    return clients.trim().split('\n').filter(Boolean).length;
  }

  /** How many scripts clients ran on this lock during `fn`. */
  async scripts({ name }: Lock, fn: () => Promise<unknown>): Promise<number> {
    const commands = await recordCommands(this.url, fn);
    return commands.filter((command) => command.name === 'EVALSHA' && command.args.includes(name))
      .length;
  }

  /** Calls `start` and waits until so many calls of the client wait for the lock and have nothing to send any more. */
  async waiting(client: Holdfast, lock: Lock, count: number, start: () => void): Promise<void> {
    const told = eventsOf(client, 'waiting');
    start();
    await eventually(async () => {
      expect(told).toHaveLength(count);
      expect(await this.subscriptions(lock)).not.toEqual([]);
    });
    await this.quiet(lock);
  }

  /** Waits until no script has run on this lock for 100 ms. */
  async quiet(lock: Lock): Promise<void> {
    await eventually(async () => {
      expect(await this.scripts(lock, () => sleep(100))).toBe(0);
    });
  }

  /** The lock is held by somebody of another program, who will tell nobody when it is over. */
  async holdSilently({ name }: Lock, leaseMs: number): Promise<void> {
    await this.redis.multi().hset(name, 'somebody:1', 1).pexpire(name, leaseMs).exec();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.redis.disconnect();
    await this.#server[Symbol.asyncDispose]();
  }
}
