// A fenced lock as the caller sees it: a lock that gives each holder a token for the resource to check.

import type { Hold } from './hold.js';
import type { Lock } from './lock.js';
import type { AcquireOptions, LockOptions } from './options.js';

/**
 * Options of `getFencedLock()`.
 *
 * @group Locks
 */
export interface FencedLockOptions {
  /** Whether it is first come, first served over all processes, as `getFairLock` is. Default: false. */
  fair?: boolean | undefined;
  /**
   * How long the server remembers the last token that it gave, in milliseconds; `Infinity`: for ever, as it must where Redisson shares
   * the lock. A token that is forgotten is followed by the server's time in microseconds, which is larger unless the clock was set back.
   * Default: seven days.
   */
  tokenTtl?: number | undefined;
}

/**
 * A hold of a fenced lock.
 *
 * @group Holds
 */
export interface FencedHold extends Hold {
  /** Larger than that of every earlier holder. Nested holds share it. */
  readonly token: bigint;
}

/**
 * A lock that gives each holder a token larger than all before it. Whoever lost the lock without noticing, since its process was
 * paused, has a smaller one than its successor: a resource that remembers the largest token that it saw, and refuses smaller ones,
 * lets nobody write late. See https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
 *
 * It is the same lock as those that `getLock` and `getFairLock` return for this name, whose holders have no token: so all who
 * write to the resource take it by `getFencedLock`, or, over several masters, by `getRedLock` of such locks. Inside a hold of
 * those it throws an {@link OptionError}, as there is no token to share.
 *
 * Annotate what may be this or another lock as {@link Lock}: of a union of the two, TypeScript cannot tell which `withLock` is meant.
 *
 * @group Locks
 */
export interface FencedLock extends Lock {
  /**
   * The last token that the server knows, of a holder or of a failed attempt; undefined: there was none, or it is forgotten. For people: a
   * holder's own token is {@link FencedHold.token}. For a Redlock it is the largest token among the masters that answer, which must be most
   * of them; those that have restarted may have forgotten it.
   *
   * @throws {@link KeyConflictError} there is something else at the token's key; or no token is known, and something that is no such lock has the name
   * @throws {@link UnavailableError}
   * @throws {@link QuorumError} of a Redlock, too few masters answered
   */
  getToken(): Promise<bigint | undefined>;

  /**
   * Like {@link Lock.lock}, but returns the token. Undo it by {@link Lock.unlock}.
   *
   * @throws {@link LockTimeoutError} somebody else had it until the client's `wait` ran out
   */
  lockAndGetToken(lease?: number | LockOptions): Promise<bigint>;

  /**
   * Like {@link Lock.tryLock}, but returns the token.
   *
   * @returns undefined when somebody else had it all the time
   */
  tryLockAndGetToken(wait?: number | AcquireOptions, lease?: number): Promise<bigint | undefined>;

  /** As {@link Lock.acquire}. */
  acquire(options?: AcquireOptions): Promise<FencedHold>;

  /** As {@link Lock.tryAcquire}. */
  tryAcquire(options?: AcquireOptions): Promise<FencedHold | undefined>;

  /** As {@link Lock.withLock}. */
  withLock<T>(fn: (hold: FencedHold) => T | Promise<T>): Promise<T>;
  /** As {@link Lock.withLock}, with options. */
  withLock<T>(options: AcquireOptions, fn: (hold: FencedHold) => T | Promise<T>): Promise<T>;
}
