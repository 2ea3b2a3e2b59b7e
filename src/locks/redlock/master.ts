// One master as its Redlock sees it: its part of the lock, its pending votes, and whether it can be asked now.

import type { Cleanup } from '../../core/cleanup.js';
import {
  type AcquireReply,
  isAcquired,
  type KeepReply,
  releaseAt,
  stateOf,
} from '../../core/protocol.js';
import type { RedisClient } from '../../redis/client.js';
import { describe } from '../../redis/failure.js';
import { scripts } from '../../redis/scripts.generated.js';
import { NO_LIMIT, type TimeLimit } from '../../runtime/clock.js';
import type { ReentrantLockBackend } from '../plain.js';

/** A master's answer to a request for its vote. */
export interface VoteReply {
  /**
   * For a fenced lock, `token` is the least next token that this master accepts: larger than its last one, and not less than its clock. It
   * is only a proposal; the write-back assigns the token.
   */
  readonly reply: AcquireReply;
  /** The longest lease requested from this master before this vote that may not be over yet, in milliseconds; 0: it knows none. */
  readonly longestLeaseMs: number;
}

/** By connection, how many commands are overdue: not answered in time, and still unanswered. For all locks together. */
const overdue = new WeakMap<RedisClient, number>();

export class Master {
  /** The address of the master, for messages. */
  readonly name: string;
  readonly lock: ReentrantLockBackend;
  readonly connection: RedisClient;
  readonly #cleanup: Cleanup;
  /** By owner, the votes that were requested and are not answered yet; each resolves to whether it was given. */
  readonly #votes = new Map<string, Promise<boolean>>();

  /** `cleanup`: that of the master's client, which continues after the Redlock's client is closed. */
  constructor(lock: ReentrantLockBackend, cleanup: Cleanup) {
    this.name = lock.connection.place;
    this.lock = lock;
    this.connection = lock.connection;
    this.#cleanup = cleanup;
  }

  /**
   * Why this master is not asked for a vote; undefined: it is asked. A master with an overdue answer is not asked again until it answers or
   * is reconnected, so a silent master costs its timeout once, not on every attempt.
   */
  get whyDown(): string | undefined {
    const { isReady, lastError, opening } = this.connection;
    const why = lastError ?? opening;
    if (!isReady) return why ? describe(why) : 'not connected';
    return (overdue.get(this.connection) ?? 0) > 0 ? 'it owes an answer' : undefined;
  }

  /** Whether it is neither up nor known to be down. */
  get isConnecting(): boolean {
    return !this.connection.isReady && !this.connection.lastError;
  }

  /** Asks for its vote. The master also remembers the requested lease. */
  vote(ownerId: string, leaseMs: number, limit: TimeLimit = NO_LIMIT): Promise<VoteReply> {
    const { counter, keys } = this.lock;
    this.lock.letGo();
    const vote = this.connection.runReplicated(
      scripts.vote,
      [keys.lock, keys.longestLease, ...(counter ? [counter.key] : [])],
      [ownerId, leaseMs],
      readVote,
      ({ reply }) => isAcquired(reply),
      limit,
    );
    const isGiven = vote.then(({ reply }) => isAcquired(reply));
    this.#votes.set(ownerId, isGiven);
    const settled = (): void => {
      if (this.#votes.get(ownerId) === isGiven) this.#votes.delete(ownerId);
    };
    isGiven.then(settled, (error: unknown) => {
      settled();
      this.connection.refusals.heard(error);
    });
    return vote;
  }

  /**
   * For a fenced lock: writes a token to this master if it is larger than the last one there, and returns undefined; otherwise returns the
   * last one.
   */
  async raise(token: bigint, limit?: TimeLimit): Promise<bigint | undefined> {
    return await this.lock.counter?.raise(token, limit);
  }

  /** Sends `reenter` to this master. */
  keep(ownerId: string, holdCount: number, leaseMs: number, limit: TimeLimit): Promise<KeepReply> {
    const keep = this.lock.reenter(ownerId, holdCount, leaseMs, limit);
    return this.#remembering([this.lock], leaseMs, keep);
  }

  /** Renews many locks on this master, each for its owner. A lease of 0 only checks them. */
  renewMany(
    locks: readonly ReentrantLockBackend[],
    ownerIds: readonly string[],
    leaseMs: number,
    limit: TimeLimit,
  ): Promise<readonly (KeepReply | undefined)[]> {
    const renewal = this.lock.renewMany(locks, ownerIds, leaseMs, limit);
    return this.#remembering(locks, leaseMs, renewal);
  }

  /**
   * An extension counts only if the master also remembers the requested lease; both commands are sent at once. A loss counts at once: how a lock was
   * lost is told only to who asks first.
   */
  async #remembering<T extends KeepReply | readonly (KeepReply | undefined)[]>(
    locks: readonly ReentrantLockBackend[],
    leaseMs: number,
    asked: Promise<T>,
  ): Promise<T> {
    if (leaseMs === 0) return await asked;
    const keys = locks.map((lock) => lock.keys.longestLease);
    const remembered = this.connection.run(scripts.remember, keys, [leaseMs], () => undefined);
    remembered.catch(() => undefined);
    const answer = await asked;
    if (answer.includes('kept')) await remembered;
    return answer;
  }

  /**
   * Releases the lock on this master, now or `inMs` from now. If that fails, the clean-up repeats it when the master is reachable (a release
   * later, too: the lease may be longer than the lock has to stay taken).
   */
  release(ownerId: string, inMs = 0): Promise<boolean> {
    const vote = this.#votes.get(ownerId);
    const { clock } = this.connection.surroundings;
    const freeAtMs = clock.nowMs() + inMs;
    const send = (): Promise<boolean> => releaseAt(this.lock, ownerId, freeAtMs, clock);
    const removable = { id: this.lock.id, release: send };
    const releasing = send();
    // The client of this master may be closing at the same time as that of the Redlock.
    this.#cleanup.expect(releasing);
    releasing.then(
      (isReleased) => {
        if (isReleased) this.#cleanup.released?.add(removable, ownerId);
        else if (vote)
          this.#cleanup.removeAfter(vote, () => {
            this.withdraw(ownerId);
          });
      },
      () => {
        this.#cleanup.remove(removable, ownerId, vote);
      },
    );
    return releasing;
  }

  /** Takes back a vote, even one that may still come. `isTold`: whether the waiters are notified, since the vote may have kept them out. */
  withdraw(ownerId: string, isTold = false): void {
    const release = (owner: string): Promise<boolean> => this.lock.release(owner, isTold);
    this.#cleanup.remove({ id: this.lock.id, release }, ownerId, this.#votes.get(ownerId));
  }

  /** Restores an owner that this master has lost, and its hold count. */
  async repair(ownerId: string, holdCount: number, leaseMs: number): Promise<void> {
    const vote = this.vote(ownerId, leaseMs);
    // The count is sent right behind the vote, so a release sent after this call runs after both.
    const counted = holdCount > 1 ? this.lock.reenter(ownerId, holdCount, 0) : undefined;
    await Promise.all([vote, counted]);
  }

  /** Records an answer that did not come in time. */
  overdue(answer: Promise<unknown>): void {
    const count = (more: number): void => {
      overdue.set(this.connection, (overdue.get(this.connection) ?? 0) + more);
    };
    const settled = (): void => {
      count(-1);
    };
    count(1);
    answer.then(settled, settled);
  }
}

function readVote(answer: unknown): VoteReply {
  const [longestLeaseMs, text, holderTtlMs, heardBy] = answer as [
    number,
    string?,
    number?,
    number?,
  ];
  const reply: AcquireReply =
    text !== undefined && holderTtlMs !== undefined
      ? { outcome: 'held', holder: text, holderTtlMs, holderState: stateOf(heardBy) }
      : { outcome: 'acquired', ...(text !== undefined && { token: BigInt(text) }) };
  return { reply, longestLeaseMs };
}
