// One master of a Redlock: its part of the lock, and what is known of its health.

import type { KeepReply } from '../../core/replies.js';
import type { TimeLimit } from '../../runtime/clock.js';
import { OptionError } from '../../api/errors.js';
import type { Cleanup } from '../../core/cleanup.js';
import type { ReentrantLockBackend } from '../reentrant/reentrant-backend.js';
import type { VoteReply } from '../reentrant/voting.js';
import type { RedisClient } from '../../redis/client.js';
import { describe } from '../../redis/failure.js';

/** How many commands were not answered in time, and still are not, by connection; whatever lock they were for. */
const overdue = new WeakMap<RedisClient, number>();

function overdueOf(connection: RedisClient): number {
  return overdue.get(connection) ?? 0;
}

export class Master {
  /** The address of the master, for people. */
  readonly name: string;
  readonly lock: ReentrantLockBackend;
  readonly #cleanup: Cleanup;
  /** By owner, the votes that were asked for and are not answered so far; each resolves to whether it was given. */
  readonly #asked = new Map<string, Promise<boolean>>();

  constructor(lock: ReentrantLockBackend, cleanup: Cleanup) {
    this.name = lock.connection.place;
    this.lock = lock;
    this.#cleanup = cleanup;
  }

  /**
   * Why it is of no use to ask this master for a vote; undefined: it is of use. A master that owes us an answer is not asked again before
   * it gave that, or its connection was made anew: so it costs its timeout once, not on every attempt.
   */
  get trouble(): string | undefined {
    const { isReady, lastError } = this.lock.connection;
    if (!isReady) return lastError ? describe(lastError) : 'not connected';
    return overdueOf(this.lock.connection) > 0 ? 'it owes an answer' : undefined;
  }

  /** Whether it is neither up nor known to be in trouble. */
  get isConnecting(): boolean {
    const { isReady, lastError } = this.lock.connection;
    return !isReady && !lastError;
  }

  /** Asks for its vote. */
  vote(ownerId: string, leaseMs: number, limit?: TimeLimit): Promise<VoteReply> {
    const vote = this.lock.vote(ownerId, leaseMs, limit);
    const isGiven = vote.then(({ reply }) => reply.outcome === 'acquired');
    this.#asked.set(ownerId, isGiven);
    const settled = (): void => {
      if (this.#asked.get(ownerId) === isGiven) this.#asked.delete(ownerId);
    };
    isGiven.then(settled, (error: unknown) => {
      settled();
      this.lock.connection.refusals.heard(error);
    });
    return vote;
  }

  /**
   * For a fenced lock: writes a token to this master if it is larger than the last one there, and returns undefined; otherwise returns that
   * last one.
   */
  async raise(token: bigint, limit?: TimeLimit): Promise<bigint | undefined> {
    return await this.lock.counter?.raise(token, limit);
  }

  /** Sends `reenter` to this master. A lease that is asked for counts only if the master remembers it, too. */
  keep(ownerId: string, holdCount: number, leaseMs: number, limit: TimeLimit): Promise<KeepReply> {
    const { lock } = this;
    const keep = (): Promise<KeepReply> => lock.reenter(ownerId, holdCount, leaseMs, limit);
    return this.#remembering([lock], leaseMs, keep);
  }

  /** Renews many locks on this master, each for its owner; with a lease of 0 only looks. */
  renewMany(
    locks: readonly ReentrantLockBackend[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit: TimeLimit,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const renew = (): Promise<readonly (KeepReply | undefined)[]> =>
      this.lock.renewMany(locks, ownerIds, leaseMs, limit);
    return this.#remembering(locks, leaseMs, renew);
  }

  /** Gives up the lock there; what cannot be given up now is as soon as the master can be reached. */
  async release(ownerId: string): Promise<boolean> {
    const vote = this.#asked.get(ownerId);
    const releasing = this.lock.release(ownerId);
    // The client of this master may be closing at the same time as that of the Redlock.
    this.#cleanup.expect(releasing);
    try {
      const isReleased = await releasing;
      if (isReleased) this.#cleanup.released?.add(this.lock, ownerId);
      else this.#withdrawAfter(vote, ownerId);
      return isReleased;
    } catch (error) {
      this.#cleanup.remove(this.lock, ownerId);
      this.#withdrawAfter(vote, ownerId);
      throw error;
    }
  }

  /** Takes back a vote, or one that may still come; those who wait are told only if it may have kept them out. */
  withdraw(ownerId: string, isTold = false): void {
    this.#withdrawAfter(this.#asked.get(ownerId), ownerId);
    const withdrawn = isTold ? this.lock.release(ownerId) : this.lock.withdraw(ownerId);
    const handled = withdrawn.catch(() => {
      this.#cleanup.remove(this.lock, ownerId);
    });
    this.#cleanup.expect(handled);
  }

  #withdrawAfter(vote: Promise<boolean> | undefined, ownerId: string): void {
    if (!vote) return;
    this.#cleanup.removeAfter(vote, () => {
      this.withdraw(ownerId);
    });
  }

  /** Gives this master an owner again that it has lost, and its hold count. */
  async repair(ownerId: string, holdCount: number, leaseMs: number): Promise<void> {
    const vote = this.vote(ownerId, leaseMs);
    // The count goes right behind: a release that is sent after this finds both done.
    const counted = holdCount > 1 ? this.lock.reenter(ownerId, holdCount, 0) : undefined;
    await Promise.all([vote, counted]);
  }

  /** Has the master remember the lease, and asks; both are sent at once, and it takes both for the lease to count. */
  async #remembering<T>(
    locks: readonly ReentrantLockBackend[],
    leaseMs: number,
    ask: () => Promise<T>,
  ): Promise<T> {
    if (leaseMs === 0) return await ask();
    const remembered = this.lock.remember(locks, leaseMs);
    const [answer] = await Promise.all([ask(), remembered]);
    return answer;
  }

  /** An answer did not come in time. */
  overdue(answer: Promise<unknown>): void {
    const { connection } = this.lock;
    overdue.set(connection, overdueOf(connection) + 1);
    const settled = (): void => {
      overdue.set(connection, overdueOf(connection) - 1);
    };
    answer.then(settled, settled);
  }
}

/** Throws if two masters are one server, which would have two votes. That is known once they are connected. */
export function assertDistinct(lockName: string, masters: readonly Master[]): void {
  for (const [index, { name, lock }] of masters.entries()) {
    const serverId = lock.connection.server.id;
    if (serverId === undefined) continue;
    const twin = masters.findIndex((other) => other.lock.connection.server.id === serverId);
    if (twin === index) continue;
    throw new OptionError(
      `lock "${lockName}": the masters ${masters[twin]?.name ?? ''} and ${name} of the Redlock are the same server (run_id ${serverId}): each must be a server of its own`,
      { lockName },
    );
  }
}
