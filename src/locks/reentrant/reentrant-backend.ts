// The reentrant lock on one Redis: what its scripts are sent and what they answer. The data is Redisson's RLock.

import { isAcquired, isKept, type AcquireReply, type KeepReply } from '../../core/replies.js';
import type { LockBackend } from '../../core/backend.js';
import type { LockRequest } from '../../core/request.js';
import type { Waiter } from '../../core/waiter.js';
import type { KeyInTheWay } from '../../core/key-conflict.js';
import type { TimeLimit } from '../../runtime/clock.js';
import type { Server } from '../../core/server.js';
import type { RedisClient } from '../../redis/client.js';
import { scripts } from '../../redis/scripts.generated.js';
import { keyOfAnotherType, type ExpectedKey } from '../../core/key-types.js';
import { ContestedBackend } from './contested-backend.js';
import { NO_FENCING, type Fencing } from './fencing.js';
import { acquireScript, type Publish } from './gathered-call.js';
import { GatheredCalls } from './gathered-calls.js';
import { HoldRenewer } from './hold-renewer.js';
import { ReentrantWaiter } from './reentrant-waiter.js';
import { readVote, type LastToken, type VoteReply } from './voting.js';

/** The time to live of a lock that nobody holds. */
const FREE = -2;

const ACQUIRED: AcquireReply = { outcome: 'acquired' };

export class ReentrantLockBackend extends ContestedBackend implements LockBackend {
  readonly kind: string = 'Lock';
  /** Whether it may be one of the locks that a Redlock is made of. */
  readonly mayVote: boolean = true;
  readonly isFenced: boolean = false;
  /** The last token that was given out, if it is a fenced lock. */
  readonly counter: LastToken | undefined = undefined;
  readonly newOwnerId: () => string;

  constructor(server: Server, keyPrefix: string, name: string, newOwnerId: () => string) {
    super(server, keyPrefix + name, name);
    this.newOwnerId = newOwnerId;
  }

  waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new ReentrantWaiter(this, newOwnerId(), request);
  }

  tryAtOnce(ownerId: string, leaseMs: number, limit: TimeLimit): Promise<AcquireReply> | undefined {
    return this.server.connection.isReplicated ? undefined : this.acquire(ownerId, leaseMs, limit);
  }

  /** @param limit - how long the caller will wait, and so how long replicas may take to acknowledge it */
  acquire(ownerId: string, leaseMs: number, limit?: TimeLimit): Promise<AcquireReply> {
    const { connection } = this.server;
    if (!connection.isReplicated)
      return this.#calls.acquire(this.keys, ownerId, leaseMs, readAcquire, limit, this.fencing);
    const { script, keys, args } = acquireScript(this.keys, ownerId, leaseMs, this.fencing);
    return connection.runReplicated(script, keys, args, readAcquire, isAcquired, limit);
  }

  /** Acquires the lock on this master for a Redlock. The master remembers for how long it was asked to keep the lock. */
  vote(ownerId: string, leaseMs: number, limit?: TimeLimit): Promise<VoteReply> {
    const { lock, longestLease } = this.keys;
    return this.server.connection.runReplicated(
      scripts.vote,
      [lock, longestLease, ...this.fencing.keys],
      [ownerId, leaseMs],
      readVote,
      ({ reply }) => isAcquired(reply),
      limit,
    );
  }

  /** Has a master remember that the command which is sent next asks it to keep these locks for `leaseMs`. */
  async remember(locks: readonly ReentrantLockBackend[], leaseMs: number): Promise<void> {
    const keys = locks.map((lock) => lock.keys.longestLease);
    await this.server.connection.run(scripts.remember, keys, [leaseMs], () => undefined);
  }

  /**
   * A command that prolongs a lease must be acknowledged by replicas, too: one that takes over would let others in earlier than we expect.
   */
  reenter(
    ownerId: string,
    holdCount: number,
    leaseMs: number,
    limit?: TimeLimit,
  ): Promise<KeepReply> {
    const { connection } = this.server;
    const keys = [this.keys.lock, this.keys.forced];
    const args = [ownerId, holdCount, leaseMs];
    const read = (reply: unknown): KeepReply => reply as KeepReply;
    return leaseMs > 0
      ? connection.runReplicated(scripts.reenter, keys, args, read, isKept, limit)
      : connection.run(scripts.reenter, keys, args, read, limit);
  }

  release(ownerId: string): Promise<boolean> {
    return this.#release(ownerId, this.server.publishCommand(this.keys));
  }

  /** Releases it without telling those who wait. */
  withdraw(ownerId: string): Promise<boolean> {
    return this.#release(ownerId, '');
  }

  /** Renews many locks of this node, each for its owner, as the watchdog does; with a lease of 0 only looks. */
  renewMany(
    locks: readonly ReentrantLockBackend[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit?: TimeLimit,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const keys = locks.map((lock) => lock.keys);
    return this.server.shared(HoldRenewer).send(keys, ownerIds, leaseMs, limit);
  }

  /** Which client, and so which server, it belongs to. */
  get clientToken(): string {
    return this.server.listensAt;
  }

  /** What may go into one call of `renewMany` has the same batch key. */
  get batchKey(): string {
    return this.server.shared(HoldRenewer).batchKey(this.keys);
  }

  /** The connection to the lock's server. */
  get connection(): RedisClient {
    return this.server.connection;
  }

  forceUnlock(wordMs: number): Promise<string | undefined> {
    const { lock, forced, channel } = this.keys;
    const args = [channel, this.server.publishCommand(this.keys), wordMs];
    return this.server.connection.run(scripts.forceUnlock, [lock, forced], args, (reply) => {
      const [holder, refusal] = (reply as [string, string?] | null) ?? [];
      if (refusal !== undefined) this.server.publishRefused(channel, refusal);
      return holder;
    });
  }

  keyInTheWay(): Promise<KeyInTheWay | undefined> {
    return keyOfAnotherType(this.server.connection, this.expectedKeys);
  }

  async isLocked(): Promise<boolean> {
    return (await this.remainTimeToLive()) !== FREE;
  }

  async holdCount(ownerId: string): Promise<number> {
    const { connection } = this.server;
    return Number((await connection.command('hget', this.keys.lock, ownerId)) ?? 0);
  }

  remainTimeToLive(): Promise<number> {
    return this.server.connection.run(scripts.look, [this.keys.lock], [], (reply) => {
      const [, ttlMs] = (reply as [string, number] | null) ?? ['', FREE];
      return ttlMs;
    });
  }

  /** The key of the lock, and those beside it. */
  protected get expectedKeys(): ExpectedKey[] {
    const { lock, forced } = this.keys;
    return [
      { key: lock, type: 'hash', expected: 'a lock' },
      { key: forced, type: 'string', expected: 'the word for a holder that was forced out' },
    ];
  }

  /** What gives each holder its token, if it is a fenced lock. */
  protected get fencing(): Fencing {
    return NO_FENCING;
  }

  get #calls(): GatheredCalls {
    return this.server.shared(GatheredCalls);
  }

  #release(ownerId: string, publish: Publish): Promise<boolean> {
    // This client's waiters are told of the release below, so the message that comes back to us must not count as another client's.
    const isHeard = publish !== '' && this.server.channels.isSubscribed(this.keys.channel);
    if (isHeard) this.localLine?.releasing();
    return this.#calls.release(this.keys, ownerId, publish, (reply) => {
      if (reply === 0) return false;
      if (typeof reply === 'string') this.server.publishRefused(this.keys.channel, reply);
      const listeners = typeof reply === 'number' ? reply - 1 : 0;
      this.localLine?.released(listeners - Number(isHeard));
      return true;
    });
  }
}

function readAcquire(reply: unknown): AcquireReply {
  if (reply === 1) return ACQUIRED;
  return typeof reply === 'string'
    ? { outcome: 'acquired', token: BigInt(reply) }
    : held(reply as [string, number]);
}

function held([holder, holderTtlMs]: [string, number]): AcquireReply {
  return { outcome: 'held', holder, holderTtlMs };
}
