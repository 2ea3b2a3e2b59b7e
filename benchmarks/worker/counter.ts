// What is done inside a lock, always two round trips. Who is to be alone reads a number, awaits and writes it: two at a time write over
// each other, so the number is behind the count of the stays from then on. Who reads beside others reads it twice: it must not
// change. Who has a permit counts up and down again: there must never be more than there are permits.

import type { Redis } from 'ioredis';
import { connected } from '../peers/connected.js';

/** What somebody found inside. */
export interface Found {
  readonly number: number;
  /** Whether it is what must not be. */
  readonly isIntrusion: boolean;
}

export class Counter {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #permits: number | undefined;

  private constructor(redis: Redis, key: string, permits: number | undefined) {
    this.#redis = redis;
    this.#key = key;
    this.#permits = permits;
  }

  static readonly #connections = new Map<string, Promise<Redis>>();

  /** On a connection that all counters of this process share; `permits`: of a semaphore. */
  static async open(url: string, name: string, permits?: number): Promise<Counter> {
    let connection = Counter.#connections.get(url);
    if (!connection) Counter.#connections.set(url, (connection = connected(url)));
    return new Counter(await connection, `${name}:counter`, permits);
  }

  /** One stay; `writes`: it is to be alone. */
  async stay(writes: boolean): Promise<Found> {
    if (this.#permits !== undefined) return await this.#passThrough(this.#permits);
    const number = await this.#read();
    if (!writes) return { number, isIntrusion: (await this.#read()) !== number };
    await this.#redis.set(this.#key, number + 1);
    return { number, isIntrusion: false };
  }

  async #passThrough(permits: number): Promise<Found> {
    const number = await this.#redis.incr(this.#key);
    await this.#redis.decr(this.#key);
    return { number, isIntrusion: number > permits };
  }

  async #read(): Promise<number> {
    return Number(await this.#redis.get(this.#key));
  }
}
