// The very scripts of the fair lock, sent by a plain client, and a grant heard by a plain subscriber: what Redis' part is of
// a hand-over. It renews nothing, and believes every message.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Redis } from 'ioredis';
import { LockKeys } from '../../src/redis/keys.js';
import { scripts } from '../../src/redis/scripts.generated.js';

const LEASE_MS = 30_000;

export class BareFairLock {
  readonly #redis: Redis;
  readonly #subscriber: Redis;
  readonly #token = randomUUID();
  readonly #subscribed = new Set<string>();
  #lastNumber = 0;
  #owner = '';
  /** Resolves when the lock is handed over. */
  granted: Promise<unknown> = Promise.resolve();

  constructor(redis: Redis, subscriber: Redis) {
    this.#redis = redis;
    this.#subscriber = subscriber;
  }

  static async loadScripts(redis: Redis): Promise<void> {
    for (const { source } of [scripts.join, scripts.handOver]) await redis.script('LOAD', source);
  }

  /** Takes it while it is free. */
  async hold(name: string): Promise<void> {
    await this.#join(name, 0);
  }

  /** Stands in line once it resolves. */
  async wait(name: string): Promise<void> {
    const channel = new LockKeys(name).grants + this.#token;
    if (!this.#subscribed.has(channel)) await this.#subscriber.subscribe(channel);
    this.#subscribed.add(channel);
    this.granted = once(this.#subscriber, 'message');
    await this.#join(name, LEASE_MS);
  }

  async letGo(name: string): Promise<void> {
    const { lock, line, places, channel, grants } = new LockKeys(name);
    const args = [this.#owner, channel, 'PUBLISH', grants, 'PUBLISH', 1];
    await this.#redis.evalsha(scripts.handOver.sha1, 3, lock, line, places, ...args);
  }

  async #join(name: string, placeLeaseMs: number): Promise<void> {
    const { lock, line, places } = new LockKeys(name);
    const number = ++this.#lastNumber;
    this.#owner = `${this.#token}:${number}`;
    const args = [this.#owner, LEASE_MS, placeLeaseMs, number, '0', 0, 1, this.#token];
    await this.#redis.evalsha(scripts.join.sha1, 3, lock, line, places, ...args);
  }
}
