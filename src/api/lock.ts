// A lock as the caller sees it: the same methods for every kind of lock.

import type { HoldDescription, LockDescription } from './description.js';
import type { AcquireOptions, ExportOptions, LockOptions } from './options.js';

/**
 * A lock of one name, with the methods that all kinds of locks share. An object is light and keeps no state: create one where you need it,
 * or share one between callers. The caller's scope decides who owns the lock, not the object.
 *
 * All times are in milliseconds. Besides the errors that it names, every method that acquires may throw:
 *
 * - {@link UnavailableError}: Redis did not answer in time, or refuses the client (then at once, also with `wait: Infinity`)
 * - {@link QuorumError}: of a Redlock, too few masters answered
 * - {@link ClosedError}: the client is closed
 * - {@link KeyConflictError}: another kind of lock, or other data, has the name; such a name is never reported as free
 * - {@link LockAbortedError}: the `signal` aborted
 * - {@link LockLostError}: the call is nested in a hold that was lost
 * - {@link LockUpgradeError}: the write lock is wanted inside a hold of the read lock
 * - {@link OptionError}: an argument is not usable
 *
 * @example
 * ```ts
 * const lock = holdfast.getLock('orders:42');
 * await lock.withLock({ wait: 5_000 }, async (hold) => {
 *   hold.assertHeld(); // right before a decisive step
 * });
 * ```
 *
 * @group Locks
 */
export interface Lock {
  /** The name that was given to `getLock`; of a MultiLock, the names of its members. */
  readonly name: string;

  /**
   * Acquires the lock for the innermost `run`, or outside any `run` as an owner of its own. It waits for the client's `wait`, and
   * without that forever. Undo it with {@link Lock.unlock}.
   *
   * One `run` is one owner, so calls in its parallel branches all succeed at once. Branches that must take turns need
   * {@link Lock.withLock}, or a `run` each.
   *
   * @param lease - milliseconds, a whole number of at least 1; omitted or -1: the watchdog renews it. Or {@link LockOptions}
   * @throws {@link LockTimeoutError} another owner had the lock until the client's `wait` ran out
   * @throws {@link UnavailableError} or another error that {@link Lock} lists
   */
  lock(lease?: number | LockOptions): Promise<void>;

  /**
   * Acquires the lock like {@link Lock.lock}, but waits for at most `wait`, and returns whether it got the lock.
   *
   * @param wait - milliseconds, 0 or more, or `Infinity`: forever. Default: 0, one attempt, bounded by `commandTimeout`. Or
   *   {@link AcquireOptions}
   * @param lease - as in {@link Lock.lock}
   * @returns false if another owner had the lock all the time
   * @throws {@link UnavailableError} or another error that {@link Lock} lists
   */
  tryLock(wait?: number | AcquireOptions, lease?: number): Promise<boolean>;

  /**
   * Undoes one `lock()` or `tryLock()`. Inside a `run`: undoes its latest one. Outside: undoes the latest one of the calling code; in
   * code that has called neither, this client's oldest one.
   *
   * @throws {@link LockNotHeldError} there is none to undo; outside any `run` also: the latest `lock()` or `tryLock()` of the calling code
   *   returned false, threw, or is under way. If an earlier one got the lock, that stays held until the client closes
   * @throws {@link LockLostError} the lock was lost before
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`: the client removes the lock from the server as soon as
   *   it can reach it. Outside any `run`, the code that called `lock()` may repeat the `unlock()`
   * @throws {@link QuorumError} the same for a Redlock
   * @throws {@link ClosedError} the client is closed, or was closed before Redis answered: the lock may be held until its lease ends
   */
  unlock(): Promise<void>;

  /**
   * Acquires the lock and returns a {@link Hold}, which any code may release.
   *
   * Inside a `run`, nested calls re-enter it, and so do calls in parallel branches: branches that must take turns need
   * {@link Lock.withLock}, or a `run` each. Outside any `run`, a nested call of the same lock waits for this hold, unless it is made inside
   * {@link Hold.run}.
   *
   * @param options - `wait` is by default the client's `wait`, and without that 1.5 x `lockWatchdogTimeout`, 45,000
   * @throws {@link LockTimeoutError} another owner had the lock until `wait` ran out
   * @throws {@link UnavailableError} or another error that {@link Lock} lists
   * @example
   * ```ts
   * await using hold = await lock.acquire({ wait: 5_000 }); // released at the end of the block
   * ```
   */
  acquire(options?: AcquireOptions): Promise<Hold>;

  /**
   * Acquires the lock like {@link Lock.acquire}, but makes only one attempt by default.
   *
   * @param options - `wait` is 0 by default
   * @returns undefined if another owner had the lock all the time
   * @throws {@link UnavailableError} or another error that {@link Lock} lists
   */
  tryAcquire(options?: AcquireOptions): Promise<Hold | undefined>;

  /**
   * Acquires the lock, runs `fn`, and releases the lock whatever happens. It waits for the client's `wait`, and without that for
   * 1.5 x `lockWatchdogTimeout`, 45 s.
   *
   * Acquisitions of the same lock inside `fn` re-enter it, one at a time. If `fn` throws, the caller gets exactly that error, also when the
   * lock was lost. A release that Redis does not answer is an `error` event, and does not throw.
   *
   * `fn` must await all its work. If its hold is used after it has ended, a `warning` says so, once for each name.
   *
   * @returns what `fn` returns
   * @throws {@link OptionError} `fn` resolved to a generator object, a stream or an Observable, whose work would begin after the release; a
   *   stream or generator was ended
   * @throws {@link LockTimeoutError} another owner had the lock until that wait ran out; `fn` was not called
   * @throws {@link LockLostError} `fn` succeeded, but the lock was lost before it was released
   * @throws {@link ClosedError} the client is closed; or `fn` succeeded, and the client was closed before Redis answered the release
   * @throws {@link UnavailableError} or another error that {@link Lock} lists; `fn` was not called
   */
  withLock<T>(fn: (hold: Hold) => T | Promise<T>): Promise<T>;
  /**
   * Acquires the lock with options, runs `fn`, and releases the lock whatever happens, as `withLock(fn)` does.
   *
   * @param options - `wait` is by default the client's `wait`, and without that 1.5 x `lockWatchdogTimeout`, 45,000
   * @returns what `fn` returns
   * @throws {@link LockTimeoutError} another owner had the lock until `wait` ran out; `fn` was not called
   * @throws {@link LockLostError} `fn` succeeded, but the lock was lost before it was released
   * @throws {@link ClosedError} the client is closed; or `fn` succeeded, and the client was closed before Redis answered the release
   * @throws {@link UnavailableError} or another error that {@link Lock} lists; `fn` was not called
   */
  withLock<T>(options: AcquireOptions, fn: (hold: Hold) => T | Promise<T>): Promise<T>;

  /**
   * Whether any owner holds the lock.
   *
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link QuorumError} of a Redlock, too few masters answered
   * @throws {@link ClosedError} the client is closed
   */
  isLocked(): Promise<boolean>;

  /**
   * Whether the caller is inside a hold of it. Outside all scopes: whether `unlock()` has something to undo. Asks the server only if this
   * client knows of such a hold.
   *
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name by now
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link QuorumError} of a Redlock, too few masters answered
   * @throws {@link ClosedError} the client is closed
   */
  isHeldByCurrentOwner(): Promise<boolean>;

  /**
   * How often the caller's owner holds the lock; 0: not at all. Asks the server only if this client knows of such a hold.
   *
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name by now
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link QuorumError} of a Redlock, too few masters answered
   * @throws {@link ClosedError} the client is closed
   */
  getHoldCount(): Promise<number>;

  /**
   * Milliseconds until the lease ends, whoever holds the lock; -1: it has no expiry; -2: nobody holds it. Of a Redlock, how long a majority
   * keeps it.
   *
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link QuorumError} of a Redlock, too few masters answered
   * @throws {@link ClosedError} the client is closed
   */
  remainTimeToLive(): Promise<number>;

  /**
   * Frees the lock, whoever holds it. The former holder is told by a message, if it has just begun by the end of its first second, and may
   * work beside the next holder until then. If its client may not subscribe, it learns of this at its next renewal at the latest.
   *
   * @returns whether it was held
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name; it stays
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`: the lock may or may not have been freed
   * @throws {@link QuorumError} the same for a Redlock
   * @throws {@link ClosedError} the client is closed, or was closed before Redis answered
   */
  forceUnlock(): Promise<boolean>;

  /** Its kind and name, and whether this client holds it; the server is not asked. */
  toJSON(): LockDescription;
}

// A fair lock as the caller sees it: a lock, and queries about its queue.

/**
 * A reentrant lock that its waiters get in the order in which they joined the queue, over all processes. A waiter that dies or gives up
 * does not hold up the others.
 *
 * It is the same lock as `getLock` of this name, but only callers of a fair lock queue.
 *
 * @group Locks
 */
export interface FairLock extends Lock {
  /**
   * How many callers wait in the queue, over all processes. Walks the whole queue: for debugging, not for hot paths.
   *
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link ClosedError} the client is closed
   */
  getQueueLength(): Promise<number>;

  /**
   * The owners that wait in the queue, `<clientId>:<n>`, the next one first. Walks the whole queue: for debugging, not for hot paths.
   *
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link ClosedError} the client is closed
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
  /** Whether the lock is first come, first served over all processes, like `getFairLock`. Default: false. */
  fair?: boolean | undefined;
  /**
   * How long the server remembers the last token, in milliseconds: a whole number of at least 1, or `Infinity`: forever, as it must be
   * where Redisson shares the lock. After a token is forgotten, the next one is the server's time in microseconds, which is larger unless
   * the clock was set back. Default: 604,800,000, seven days.
   */
  tokenTtl?: number | undefined;
}

/**
 * A hold of a fenced lock: it always has a token.
 *
 * @group Holds
 */
export interface FencedHold extends Hold {
  /** The fencing token, larger than that of every earlier holder. Nested holds share it. */
  readonly token: bigint;
}

/**
 * A lock that gives each holder a token larger than all before it. The guarded resource remembers the largest token that it saw and refuses
 * smaller ones: so a holder that lost the lock without noticing, because its process was paused, cannot write late. See
 * https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
 *
 * It is the same lock as `getLock` and `getFairLock` of this name, whose holders have no token. So every writer must use `getFencedLock`,
 * or, over several masters, `getRedLock` of such locks. Inside a hold without a token a fenced lock throws an {@link OptionError}, as there
 * is no token to share.
 *
 * Annotate a variable that may hold this or another lock as {@link Lock}: with a union of the two types, TypeScript cannot choose an
 * overload of `withLock`.
 *
 * @example
 * ```ts
 * const fenced = holdfast.getFencedLock('document:7');
 * await fenced.withLock(async ({ token }) => {
 *   // UPDATE documents SET text = …, token = $1 WHERE id = 7 AND token <= $1
 * });
 * ```
 *
 * @group Locks
 */
export interface FencedLock extends Lock {
  /**
   * The last token that the server knows, of a holder or of a failed attempt; undefined: there was none, or it is forgotten. For debugging:
   * a holder's own token is {@link FencedHold.token}. For a Redlock it is the largest token among the masters that answer, which must be a
   * majority; masters that have restarted may have forgotten it.
   *
   * @throws {@link KeyConflictError} other data is at the token's key; or no token is known, and another kind of lock, or other data, has
   *   the name
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link QuorumError} of a Redlock, too few masters answered
   * @throws {@link ClosedError} the client is closed
   */
  getToken(): Promise<bigint | undefined>;

  /**
   * Acquires the lock like {@link Lock.lock}, and returns the token. Undo it with {@link Lock.unlock}.
   *
   * @param lease - as in {@link Lock.lock}
   * @throws {@link LockTimeoutError} another owner had the lock until the client's `wait` ran out
   * @throws {@link UnavailableError} or another error that {@link Lock} lists
   */
  lockAndGetToken(lease?: number | LockOptions): Promise<bigint>;

  /**
   * Acquires the lock like {@link Lock.tryLock}, and returns the token.
   *
   * @param wait - as in {@link Lock.tryLock}
   * @param lease - as in {@link Lock.lock}
   * @returns undefined if another owner had the lock all the time
   * @throws {@link UnavailableError} or another error that {@link Lock} lists
   */
  tryLockAndGetToken(wait?: number | AcquireOptions, lease?: number): Promise<bigint | undefined>;

  /** Acquires the lock as {@link Lock.acquire} does; the hold has a token. */
  acquire(options?: AcquireOptions): Promise<FencedHold>;

  /** Acquires the lock as {@link Lock.tryAcquire} does; the hold has a token. */
  tryAcquire(options?: AcquireOptions): Promise<FencedHold | undefined>;

  /** Runs `fn` under the lock as {@link Lock.withLock} does; the hold has a token. */
  withLock<T>(fn: (hold: FencedHold) => T | Promise<T>): Promise<T>;
  /** Runs `fn` under the lock as {@link Lock.withLock} does, with options; the hold has a token. */
  withLock<T>(options: AcquireOptions, fn: (hold: FencedHold) => T | Promise<T>): Promise<T>;
}

// One successful acquisition, as the caller has it in hand: the same for every kind of lock.

/**
 * A lock that was acquired. It is a capability: any code that has it may release it.
 *
 * @example
 * ```ts
 * await using hold = await lock.acquire({ wait: 5_000 }); // released at the end of the block
 * await fetch('https://bank.example/transfer', { signal: hold.signal });
 * ```
 *
 * @group Holds
 */
export interface Hold extends AsyncDisposable {
  /** The lock's name that was given to `getLock`; of a MultiLock, the names of its members. */
  readonly lockName: string;

  /** The owner on the server: `<clientId>:<n>`. Nested acquisitions share it. */
  readonly ownerId: string;

  /**
   * The fencing token, larger than that of every earlier holder. Holds of a fenced lock have one; a hold of another lock of that name that
   * is nested in one shares it. Any other hold has none: undefined.
   */
  readonly token?: bigint | undefined;

  /**
   * Aborts when the lock is lost; its `reason` is a {@link LockLostError}. Give it to the work that the lock guards. A release does not
   * abort it.
   */
  readonly signal: AbortSignal;

  /** Milliseconds for which this process may still rely on the lock, perhaps with decimals; 0 after it was lost or released. */
  remaining(): number;

  /**
   * Throws unless this process may rely on the lock now: call it right before each decisive step. It reads both clocks, so it also notices
   * that the process stood still, and sends no command. Unlike `signal`, it also fails in work that goes on after the release.
   *
   * @throws {@link LockLostError} the lock was lost
   * @throws {@link LockNotHeldError} the hold was released or exported, or the function that got it has ended
   * @example
   * ```ts
   * await lock.withLock(async (hold) => {
   *   const balance = await readBalance();
   *   hold.assertHeld();
   *   await writeBalance(balance - 10);
   * });
   * ```
   */
  assertHeld(): void;

  /**
   * Makes the lease end no earlier than `lease` from now. Never shortens it; a watched hold stays watched.
   *
   * @param lease - milliseconds, a whole number of at least 1
   * @throws {@link LockLostError} the lock was lost
   * @throws {@link LockNotHeldError} the hold was released
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`; the lease may be the old one
   * @throws {@link QuorumError} the same for a Redlock
   * @throws {@link ClosedError} the client was closed during the call; mostly a {@link LockLostError} says so
   * @throws {@link OptionError} the lease is not usable
   */
  extend(lease: number): Promise<void>;

  /**
   * Gives the lock up, in one round trip. Repeating it is harmless. After an {@link UnavailableError} you may repeat it; meanwhile the
   * client removes the lock from the server as soon as it can reach it.
   *
   * @throws {@link LockLostError} the lock was lost before
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`
   * @throws {@link QuorumError} the same for a Redlock
   * @throws {@link ClosedError} the client was closed before Redis answered: the lock may be held until its lease ends
   */
  release(): Promise<void>;

  /**
   * Runs `fn` as the holder: acquisitions of the same lock inside re-enter this hold instead of waiting for it. Does not release it.
   *
   * @returns what `fn` returns
   * @throws {@link LockLostError} the lock was lost before
   * @throws {@link LockNotHeldError} the hold was released before
   * @example
   * ```ts
   * await using hold = await lock.acquire();
   * await hold.run(() => codeThatTakesTheSameLock());
   * ```
   */
  run<T>(fn: () => T | Promise<T>): Promise<T>;

  /**
   * Ends the hold here without releasing the lock, so that another process can go on with it: give the text to {@link Holdfast.adopt}
   * there. The lease is renewed once, and never shortened; if nobody adopts the hold, the lock is free when the lease ends.
   *
   * From then on this hold is over: its signal aborts with a {@link LockExportedError}, `release()` does nothing, and a `withLock` around
   * it resolves. Whoever has the text can take the lock: do not log it. It contains no password.
   *
   * @throws {@link OptionError} `lease` is not usable; the owner has other holds of the lock, nested ones, for example; or it is a hold of a
   *   MultiLock or a Redlock
   * @throws {@link LockLostError} the lock was lost
   * @throws {@link LockNotHeldError} the hold was released
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`: the hold goes on here
   * @throws {@link ClosedError} the client was closed during the call
   */
  export(options?: ExportOptions): Promise<string>;

  /** The lock's name, whether it is held, released or lost, its owner, the milliseconds left, and the fencing token as a string. */
  toJSON(): HoldDescription;

  /**
   * Releases the hold at the end of an `await using` block. If Redis does not answer, that is an `error` event, and does not throw.
   *
   * @throws {@link LockLostError} the lock was lost. If the block threw as well, JavaScript throws a `SuppressedError`: its `error` is the
   *   loss, its `suppressed` the error of the block. {@link Lock.withLock} throws the latter alone.
   * @throws {@link ClosedError} the client was closed before Redis answered: the lock may be held until its lease ends
   */
  [Symbol.asyncDispose](): Promise<void>;
}
