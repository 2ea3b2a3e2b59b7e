// A lock as the caller sees it: the same surface for every kind of lock.

import type { HoldDescription, LockDescription } from './description.js';
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

// A fair lock as the caller sees it: a lock, and a look at the line for it.

/**
 * A reentrant lock that is handed over in the order in which its waiters joined the line, over all processes. A waiter
 * that dies, or gives up, does not hold up the others.
 *
 * It is the same lock as the one that `getLock` returns for this name, but only calls of a fair lock stand in line.
 *
 * @group Locks
 */
export interface FairLock extends Lock {
  /**
   * How many wait in line, over all processes. Walks the whole line: for people, not for hot paths.
   *
   * @throws {@link KeyConflictError} something that is no such lock has the name
   * @throws {@link UnavailableError}
   */
  getQueueLength(): Promise<number>;

  /**
   * Who waits in line, the next one first: owners, `<clientId>:<n>`. Walks the whole line: for people, not for hot paths.
   *
   * @throws {@link KeyConflictError} something that is no such lock has the name
   * @throws {@link UnavailableError}
   */
  getWaiters(): Promise<string[]>;
}

// A fenced lock as the caller sees it: a lock that gives each holder a token for the resource to check.

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

// One successful acquisition, as the caller has it in hand: the same for every kind of lock.

/**
 * A lock that was acquired. It is a capability: whoever has it may release it, from anywhere.
 *
 * `await using hold = await lock.acquire()` releases it at the end of the block.
 *
 * @group Holds
 */
export interface Hold extends AsyncDisposable {
  /** The lock's name, as it was given to `getLock`; of a MultiLock, the names of its members. */
  readonly lockName: string;

  /** The owner on the server: `<clientId>:<n>`. Nested acquisitions share it. */
  readonly ownerId: string;

  /**
   * The fencing token, larger than that of every earlier holder. Holds of a fenced lock have one; a hold of another lock of that name that
   * is nested in one shares it. Any other hold has none: undefined.
   */
  readonly token?: bigint | undefined;

  /**
   * Aborts when the lock is lost; its reason is a {@link LockLostError}. Give it to whatever the lock guards.
   * It does not abort when the hold is released.
   */
  readonly signal: AbortSignal;

  /** Milliseconds for which this process may still rely on the lock; 0 when it was lost or released. */
  remaining(): number;

  /**
   * Makes the lease end no earlier than `lease` from now. Never shortens it; a watched hold stays watched.
   *
   * @param lease - milliseconds, a whole number of at least 1
   * @throws {@link LockLostError} the lock was lost
   * @throws {@link LockNotHeldError} the hold was released
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`; the lease may be the old one
   * @throws {@link OptionError} the lease is not usable
   */
  extend(lease: number): Promise<void>;

  /**
   * Gives the lock up: one round trip. To release again is harmless. After a failure it may be repeated; meanwhile the lock
   * is removed from the server as soon as that can be reached.
   *
   * @throws {@link LockLostError} the lock was lost before
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`
   * @throws {@link ClosedError} the client was closed before Redis answered: the lock may be held until its lease ends
   */
  release(): Promise<void>;

  /**
   * Runs `fn` with this hold as the nearest holder: acquisitions of the same lock inside re-enter it. Does not release it.
   *
   * @returns what `fn` returns
   * @throws {@link LockLostError} the lock was lost before
   * @throws {@link LockNotHeldError} the hold was released before
   */
  run<T>(fn: () => T | Promise<T>): Promise<T>;

  /** The lock's name, whether it is held, released or lost, its owner, the milliseconds left, and the fencing token, as a string. */
  toJSON(): HoldDescription;

  /**
   * Releases it at the end of an `await using` block; that Redis could not be reached is an `error` event.
   *
   * @throws {@link LockLostError} the lock was lost. If the block threw, too, JavaScript makes a `SuppressedError` of both: `error` is the
   *   loss, `suppressed` what the block threw. {@link Lock.withLock} throws the latter alone.
   * @throws {@link ClosedError} the client was closed before Redis answered: the lock may be held until its lease ends
   */
  [Symbol.asyncDispose](): Promise<void>;
}
