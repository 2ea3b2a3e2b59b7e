// A lock as the caller sees it: the same surface for every kind of lock.

import type { LockDescription } from './description.js';
import type { Hold } from './hold.js';
import type { AcquireOptions, LockOptions } from './options.js';

/**
 * A lock by its name. Objects are light and keep no state of their own: get one where you need it, or keep it and
 * share it between callers; who holds it is a matter of scopes, not of objects.
 *
 * All times are milliseconds. Every method that acquires may throw, besides what it names:
 * {@link UnavailableError} when Redis could not be asked in time, or refuses the client (then also where it would wait for ever), {@link ClosedError}, {@link KeyConflictError},
 * {@link OptionError}, {@link LockAbortedError} when its signal aborts, and {@link LockLostError} when it is nested in
 * a hold that was lost. Every method that asks the server about the lock throws {@link UnavailableError} and {@link ClosedError}, too, and
 * {@link KeyConflictError} when the name is that of another kind of lock, or of something else: that is never told as "free".
 *
 * @group Locks
 */
export interface Lock {
  /** The name, as it was given to `getLock`; of a MultiLock, the names of its members. */
  readonly name: string;

  /**
   * Acquires it for the innermost `run`, or anonymously; waits for as long as the `wait` of the client's options says, by default for
   * ever. Undo it by {@link Lock.unlock}. Parallel branches of one run are one owner, so that all get in: if they are to take turns, use
   * {@link Lock.withLock}, or a `run` for each.
   *
   * @param lease - milliseconds; left out or -1: the watchdog renews `lockWatchdogTimeout` until the unlock
   * @throws {@link LockTimeoutError} somebody else had it until the client's `wait` ran out
   */
  lock(lease?: number | LockOptions): Promise<void>;

  /**
   * Like {@link Lock.lock}, but waits for at most `wait`.
   *
   * @param wait - milliseconds, 0 by default: one attempt, bounded by `commandTimeout`; `Infinity`: for ever
   * @param lease - as in {@link Lock.lock}
   * @returns false when somebody else had it all the time
   */
  tryLock(wait?: number | AcquireOptions, lease?: number): Promise<boolean>;

  /**
   * Undoes the latest `lock()` or `tryLock()` of the innermost `run`; outside any run the oldest one of this client, but never in code
   * whose own latest `lock()` or `tryLock()` failed. If the oldest one was lost, no other one out there is renewed any more, since its
   * own `unlock()` may be the one that was told of the loss.
   *
   * @throws {@link LockNotHeldError} there is none to undo; outside any run also: the caller's own `tryLock()` said false, or threw
   * @throws {@link LockLostError} the lock was lost before
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`; the lock is removed from the server as
   *   soon as that can be reached, and there is nothing left to undo
   * @throws {@link ClosedError} the client is closed, or was before Redis answered: the lock may be held until its lease ends
   */
  unlock(): Promise<void>;

  /**
   * Acquires it and hands it over as a {@link Hold}, which any code may release. Inside a `run`, nested calls re-enter it, and so do those
   * of parallel branches, since the run is one owner: if they are to take turns, use {@link Lock.withLock}, or a `run` for each. Outside any
   * run it opens no scope: a nested call of this lock waits for it, unless it is made inside {@link Hold.run}.
   *
   * @param options - `wait` is that of the client's options by default, and without that `Infinity`
   * @throws {@link LockTimeoutError} somebody else had it until `wait` ran out
   */
  acquire(options?: AcquireOptions): Promise<Hold>;

  /**
   * Like {@link Lock.acquire}, but makes one attempt by default.
   *
   * @param options - `wait` is 0 by default
   * @returns undefined when somebody else had it all the time
   */
  tryAcquire(options?: AcquireOptions): Promise<Hold | undefined>;

  /**
   * Acquires it, runs `fn`, and releases it whatever happens. Acquisitions of the same lock inside `fn` re-enter it, one
   * at a time. An error of `fn` is what the caller sees, also when the lock was lost. Waits for as long as the `wait` of the client's
   * options says, by default for ever.
   *
   * @returns what `fn` returns
   * @throws {@link LockTimeoutError} somebody else had it until the client's `wait` ran out; `fn` was not called
   * @throws {@link LockLostError} `fn` succeeded, but the lock was lost before it was released
   * @throws {@link ClosedError} also when `fn` succeeded, and the client was closed before Redis had answered the release
   */
  withLock<T>(fn: (hold: Hold) => T | Promise<T>): Promise<T>;
  /**
   * Like `withLock(fn)`, with options.
   *
   * @param options - `wait` is that of the client's options by default, and without that `Infinity`
   * @returns what `fn` returns
   * @throws {@link LockTimeoutError} somebody else had it until `wait` ran out; `fn` was not called
   * @throws {@link LockLostError} `fn` succeeded, but the lock was lost before it was released
   * @throws {@link ClosedError} also when `fn` succeeded, and the client was closed before Redis had answered the release
   */
  withLock<T>(options: AcquireOptions, fn: (hold: Hold) => T | Promise<T>): Promise<T>;

  /**
   * Whether anybody holds it.
   *
   * @throws {@link KeyConflictError} something that is no such lock has the name
   * @throws {@link UnavailableError}
   */
  isLocked(): Promise<boolean>;

  /**
   * Whether the caller is inside a hold of it; outside all scopes, whether `unlock()` has one to undo. Asks the server, if this client knows of
   * such a hold.
   *
   * @throws {@link KeyConflictError} something that is no such lock has the name by now
   * @throws {@link UnavailableError}
   */
  isHeldByCurrentOwner(): Promise<boolean>;

  /**
   * How often the caller's owner holds it; 0: not at all. Asks the server, if this client knows of such a hold.
   *
   * @throws {@link KeyConflictError} something that is no such lock has the name by now
   * @throws {@link UnavailableError}
   */
  getHoldCount(): Promise<number>;

  /**
   * Milliseconds until its lease ends, whoever holds it; -2: nobody does, -1: it has no expiry.
   *
   * @throws {@link KeyConflictError} something that is no such lock has the name
   * @throws {@link UnavailableError}
   */
  remainTimeToLive(): Promise<number>;

  /**
   * Frees it whoever holds it. The holder learns it at its next renewal at the latest; until then it may work beside the next holder.
   *
   * @returns whether it was held
   * @throws {@link KeyConflictError} something that is no such lock has the name; it stays
   * @throws {@link UnavailableError} Redis did not answer: it may or may not have been freed
   */
  forceUnlock(): Promise<boolean>;

  /** Its kind and name, and whether this client holds it; the server is not asked. */
  toJSON(): LockDescription;
}
