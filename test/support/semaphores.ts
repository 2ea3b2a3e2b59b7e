// Semaphores in tests: one name for all who use it, and what of it is on the server.
import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import type { Holdfast, PermitHold, PermitOptions, Semaphore } from '../../src/index.js';
import { eventually } from './eventually.js';
import { uniqueName } from './unique-name.js';

export class TestSemaphore {
  readonly name: string;
  readonly permits: number;
  /** Of the holders, and then of the line. */
  readonly keys: readonly [string, string, string, string];
  /** The capacity that was set. */
  readonly setKey: string;
  readonly #redis: Redis;

  constructor(redis: Redis, permits: number, name = uniqueName('semaphore')) {
    this.#redis = redis;
    this.name = name;
    this.permits = permits;
    this.keys = [name, `holdfast_leases:{${name}}`, ...ofLine(name)];
    this.setKey = `holdfast_permits:{${name}}`;
  }

  of(client: Holdfast, permits = this.permits): Semaphore {
    return client.getSemaphore(this.name, { permits });
  }

  /** Owners, as they stand in line. */
  async owners(): Promise<string[]> {
    return await this.#redis.zrange(this.keys[2], '0', '-1');
  }

  /** How many permits are held, as the server counts. */
  async used(): Promise<number> {
    return Number((await this.#redis.hget(this.name, 'used')) ?? 0);
  }

  async hasLength(length: number): Promise<void> {
    await eventually(async () => {
      expect(await this.#redis.zcard(this.keys[2])).toBe(length);
    }, 25_000);
  }

  /** Resolves when the caller stands in line, where it would hear its grant; `hold` settles as its call does. */
  async join(
    client: Holdfast,
    options: PermitOptions = {},
  ): Promise<{ hold: Promise<PermitHold> }> {
    const before = new Set(await this.owners());
    const hold = this.of(client).acquire(options);
    hold.catch(() => undefined); // who awaits it learns it
    await eventually(async () => {
      const [added, ...more] = (await this.owners()).filter((owner) => !before.has(owner));
      expect(more).toEqual([]);
      expect(await this.#redis.hget(this.keys[3], added ?? '')).toMatch(/^w\d+ \d+ \d+ \d+ \d 1 /);
    });
    return { hold };
  }

  /** Fails unless nothing of it is on the server, now or soon; but for a capacity that was set. */
  async isGone(): Promise<void> {
    await eventually(async () => {
      expect(await this.#redis.exists(...this.keys)).toBe(0);
    }, 3_000);
  }
}

function ofLine(name: string): [string, string] {
  return [`holdfast_line:{${name}}`, `holdfast_places:{${name}}`];
}
