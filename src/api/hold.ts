// One successful acquisition, as the caller has it in hand: the same for every kind of lock.

import type { HoldDescription } from './description.js';

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
