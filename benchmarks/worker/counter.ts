// What is done inside a lock: a number is read, awaited and written. Two inside at a time write over each other, so the
// number is behind the count of the stays from then on.

import type { Redis } from 'ioredis';
import { connected } from '../peers/connected.js';

export class Counter {
  readonly #redis: Redis;
  readonly #key: string;

  private constructor(redis: Redis, key: string) {
    this.#redis = redis;
    this.#key = key;
  }

  static readonly #connections = new Map<string, Promise<Redis>>();

  /** On a connection that all counters of this process share. */
  static async open(url: string, name: string): Promise<Counter> {
    let connection = Counter.#connections.get(url);
    if (!connection) Counter.#connections.set(url, (connection = connected(url)));
    return new Counter(await connection, `${name}:counter`);
  }

  /** Returns what it found. */
  async countUp(): Promise<number> {
    const number = Number(await this.#redis.get(this.#key));
    await this.#redis.set(this.#key, number + 1);
    return number;
  }
}
