// Semaphores and read-write locks in tests: one name for all who use it, and what of it is on the server.
import type { Cluster, Redis } from 'ioredis';
import { expect } from 'vitest';
import type {
  AcquireOptions,
  Hold,
  Holdfast,
  Lock,
  PermitHold,
  PermitOptions,
  Semaphore,
} from '../../src/index.js';
import { eventually } from './time.js';
import { uniqueName } from './unique-name.js';

/** What either has on the server, and callers who stand in line there. */
class WeightedLine {
  /** Of the holders, and then of the line. */
  readonly keys: readonly [lock: string, leases: string, line: string, places: string];
  readonly #redis: Redis | Cluster;

  constructor(redis: Redis | Cluster, name: string) {
    const tag = `{${name}}`;
    this.#redis = redis;
    this.keys = [name, `holdfast_leases:${tag}`, `holdfast_line:${tag}`, `holdfast_places:${tag}`];
  }

  async owners(): Promise<string[]> {
    return await this.#redis.zrange(this.keys[2], '0', '-1');
  }

  async hasLength(length: number): Promise<void> {
    await eventually(async () => {
      expect(await this.#redis.zcard(this.keys[2])).toBe(length);
    }, 25_000);
  }

  /** Resolves when the caller stands in line, where it would hear its grant. */
  async joinedBy<H>(call: () => Promise<H>): Promise<{ hold: Promise<H> }> {
    const before = new Set(await this.owners());
    const hold = call();
    hold.catch(() => undefined); // who awaits it learns it
    await eventually(async () => {
      const [added, ...more] = (await this.owners()).filter((owner) => !before.has(owner));
      expect(more).toEqual([]);
      expect(await this.#redis.hget(this.keys[3], added ?? '')).toMatch(/^w\d+ \d+ \d+ \d+ \d 1 /);
    });
    return { hold };
  }

  async isGone(): Promise<void> {
    await eventually(async () => {
      expect(await this.#redis.exists(...this.keys)).toBe(0);
    }, 3_000);
  }
}

export class TestSemaphore {
  readonly name: string;
  readonly permits: number;
  readonly keys: WeightedLine['keys'];
  /** The capacity that was set. */
  readonly setKey: string;
  readonly #redis: Redis;
  readonly #line: WeightedLine;

  constructor(redis: Redis, permits: number, name = uniqueName('semaphore')) {
    this.#redis = redis;
    this.#line = new WeightedLine(redis, name);
    this.name = name;
    this.permits = permits;
    this.keys = this.#line.keys;
    this.setKey = `holdfast_permits:{${name}}`;
  }

  of(client: Holdfast, permits = this.permits): Semaphore {
    return client.getSemaphore(this.name, { permits });
  }

  /** Owners, as they stand in line. */
  owners(): Promise<string[]> {
    return this.#line.owners();
  }

  /** How many permits are held, as the server counts. */
  async used(): Promise<number> {
    return Number((await this.#redis.hget(this.name, 'used')) ?? 0);
  }

  hasLength(length: number): Promise<void> {
    return this.#line.hasLength(length);
  }

  /** Resolves when the caller stands in line, where it would hear its grant; `hold` settles as its call does. */
  join(client: Holdfast, options: PermitOptions = {}): Promise<{ hold: Promise<PermitHold> }> {
    return this.#line.joinedBy(() => this.of(client).acquire(options));
  }

  /** Fails unless nothing of it is on the server, now or soon; but for a capacity that was set. */
  isGone(): Promise<void> {
    return this.#line.isGone();
  }
}

export class TestReadWriteLock {
  readonly name: string;
  readonly keys: WeightedLine['keys'];
  readonly #redis: Redis | Cluster;
  readonly #line: WeightedLine;

  constructor(redis: Redis | Cluster, name = uniqueName('read-write')) {
    this.#redis = redis;
    this.#line = new WeightedLine(redis, name);
    this.name = name;
    this.keys = this.#line.keys;
  }

  readLock(client: Holdfast): Lock {
    return client.getReadWriteLock(this.name).readLock();
  }

  writeLock(client: Holdfast): Lock {
    return client.getReadWriteLock(this.name).writeLock();
  }

  /** Who holds it: so many readers, `W` for a writer. */
  async held(): Promise<string> {
    const { capacity = '', ...fields } = await this.#redis.hgetall(this.name);
    const weights = Object.entries(fields)
      .filter(([field]) => field !== 'used')
      .map(([, weight]) => Number.parseInt(weight, 10));
    return weights.map((weight) => (weight === Number(capacity) ? 'W' : 'R')).join('');
  }

  /** Takes a downgrade back: its only reader is the writer that it was before. */
  async undowngrade(): Promise<void> {
    const { capacity = '', ...weights } = await this.#redis.hgetall(this.name);
    const all = Object.keys(weights).flatMap((field) => [field, capacity]); // so many are used, too
    await this.#redis.hset(this.name, ...all);
  }

  hasLength(length: number): Promise<void> {
    return this.#line.hasLength(length);
  }

  /** Resolves when the caller stands in line, where it would hear its grant; `hold` settles as its call does. */
  join(
    client: Holdfast,
    half: 'read' | 'write',
    options: AcquireOptions = {},
  ): Promise<{ hold: Promise<Hold> }> {
    const lock = half === 'read' ? this.readLock(client) : this.writeLock(client);
    return this.#line.joinedBy(() => lock.acquire(options));
  }

  /** All of it that is on the server. */
  async state(): Promise<unknown> {
    const [lock, leases, line, places] = this.keys;
    return [
      await this.#redis.hgetall(lock),
      await this.#redis.zrange(leases, '0', '-1', 'WITHSCORES'),
      await this.#redis.zrange(line, '0', '-1', 'WITHSCORES'),
      Object.keys(await this.#redis.hgetall(places)),
    ];
  }

  /** Fails unless nothing of it is on the server, now or soon. */
  isGone(): Promise<void> {
    return this.#line.isGone();
  }
}
