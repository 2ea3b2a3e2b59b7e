// The reentrant lock on one Redis: what its scripts are sent and what they answer. The data is Redisson's RLock.

import type { AcquireReply, KeepReply, LockBackend, Renewable } from '../backend.js';
import type { Node } from '../node.js';
import { failureKind } from '../redis/failure.js';
import { lockKeys, type LockKeys } from '../redis/keys.js';
import { scripts } from '../redis/scripts.generated.js';
import type { Line } from '../waiting/line.js';

const ACQUIRED: AcquireReply = { outcome: 'acquired' };

export class ReentrantLock implements LockBackend {
  readonly name: string;
  readonly id: string;
  readonly newOwnerId: () => string;
  readonly #node: Node;
  readonly #keys: LockKeys;

  constructor(
    node: Node,
    clientId: string,
    keyPrefix: string,
    name: string,
    newOwnerId: () => string,
  ) {
    this.name = name;
    this.#node = node;
    this.#keys = lockKeys(keyPrefix + name);
    this.id = `${clientId} ${this.#keys.lock}`;
    this.newOwnerId = newOwnerId;
  }

  async acquire(ownerId: string, leaseMs: number): Promise<AcquireReply> {
    const reply = await this.#node.connection.run(
      scripts.acquire,
      [this.#keys.lock],
      [ownerId, leaseMs],
    );
    if (reply === 1) return ACQUIRED;
    const [holder, holderTtlMs] = reply as [string, number];
    return { outcome: 'held', holder, holderTtlMs };
  }

  async reenter(ownerId: string, holdCount: number, leaseMs: number): Promise<KeepReply> {
    const { lock, forced } = this.#keys;
    return await kept(
      this.#node.connection.run(scripts.reenter, [lock, forced], [ownerId, holdCount, leaseMs]),
    );
  }

  async release(ownerId: string, holdCount: number): Promise<KeepReply> {
    const { lock, forced, channel } = this.#keys;
    const publish = this.#node.publishCommand(this.#keys);
    return await kept(
      this.#node.connection.run(
        scripts.release,
        [lock, forced],
        [ownerId, holdCount, channel, publish],
      ),
    );
  }

  watch(lease: Renewable): void {
    this.#node.watchdog.watch(lease, this.#keys);
  }

  unwatch(lease: Renewable): void {
    this.#node.watchdog.unwatch(lease);
  }

  line(): Line {
    return this.#node.line(this.#keys);
  }

  async forceUnlock(fallbackMs: number): Promise<string | undefined> {
    const { lock, forced, channel } = this.#keys;
    const publish = this.#node.publishCommand(this.#keys);
    const reply = await this.#node.connection.run(
      scripts.forceUnlock,
      [lock, forced],
      [channel, publish, fallbackMs],
    );
    return (reply as string | null) ?? undefined;
  }

  async isLocked(): Promise<boolean> {
    return (await this.#node.connection.command((redis) => redis.exists(this.#keys.lock))) === 1;
  }

  async holdCount(ownerId: string): Promise<number> {
    return Number(
      (await this.#node.connection.command((redis) => redis.hget(this.#keys.lock, ownerId))) ?? 0,
    );
  }

  async remainTimeToLive(): Promise<number> {
    return await this.#node.connection.command((redis) => redis.pttl(this.#keys.lock));
  }
}

/** A key that became something else holds the lock no longer: it was taken. */
async function kept(answer: Promise<unknown>): Promise<KeepReply> {
  try {
    return (await answer) as KeepReply;
  } catch (error) {
    if (failureKind(error) === 'conflict') return 'taken';
    throw error;
  }
}
