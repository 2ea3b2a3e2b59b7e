// A semaphore as the caller sees it: a number of permits, each a lease, first come, first served.

import type { HoldDescription } from './description.js';
import type { Hold } from './lock.js';
import type { AcquireOptions } from './options.js';

/**
 * Options of `getSemaphore()`.
 *
 * @group Semaphores
 */
export interface SemaphoreOptions {
  /** How many permits there are: a whole number from 1 to 2^31-1. All clients of the semaphore must declare the same number. */
  permits: number;
}

/**
 * Options of an acquisition of permits; times in milliseconds.
 *
 * @group Semaphores
 */
export interface PermitOptions extends AcquireOptions {
  /** How many permits to acquire at once: a whole number from 1 to 2^31-1. Default: 1. */
  permits?: number | undefined;
}

/**
 * Permits that were acquired. It is a capability: any code that has it may release them. Its `lockName` is the semaphore's name.
 *
 * @example
 * ```ts
 * await using hold = await semaphore.acquire({ permits: 2 }); // released at the end of the block
 * ```
 *
 * @group Semaphores
 */
export interface PermitHold extends Omit<Hold, 'run' | 'token' | 'toJSON'> {
  /** How many permits it holds. */
  readonly permits: number;

  /** The semaphore's name, whether the permits are held, released or lost, how many they are, their owner, and the milliseconds left. */
  toJSON(): PermitHoldDescription;
}

/**
 * What `JSON.stringify` and `util.inspect` show of a hold of permits.
 *
 * @group Descriptions
 */
export interface PermitHoldDescription extends Omit<HoldDescription, 'token'> {
  /** How many permits it holds. */
  permits: number;
}

/**
 * A waiter in the queue of a semaphore.
 *
 * @group Semaphores
 */
export interface PermitWaiter {
  /** The owner that waits: `<clientId>:<n>`. */
  readonly ownerId: string;
  /** How many permits it wants. */
  readonly permits: number;
}

/**
 * What `JSON.stringify` and `util.inspect` show of a semaphore.
 *
 * @group Descriptions
 */
export interface SemaphoreDescription {
  /** `Semaphore`. */
  kind: 'Semaphore';
  /** The name that was given to `getSemaphore`. */
  name: string;
  /** How many permits this client declares. */
  permits: number;
}

/**
 * A number of permits, over all processes: up to so many holders at a time, first come, first served. A large request does not starve,
 * since nobody overtakes it. Permits are leases: the watchdog renews them, those of a dead holder come back when its lease ends, and a
 * holder that lost them learns of it (`hold.signal`, the `lost` event, {@link LockLostError}).
 *
 * Each acquisition is an owner of its own, and nothing is re-entered: a holder that asks for more permits waits like any other caller. If a
 * call inside `withPermits()` waits for the permits around it, a `warning` says so after 5 s.
 *
 * Besides the errors that it names, every method that acquires may throw:
 *
 * - {@link UnavailableError}: Redis did not answer in time, or refuses the client (then at once, also with `wait: Infinity`)
 * - {@link ClosedError}: the client is closed
 * - {@link KeyConflictError}: another kind of lock, or other data, has the name
 * - {@link LockAbortedError}: the `signal` aborted
 * - {@link OptionError}: an option is not usable; the call asks for more permits than there are; or other clients declared another number,
 *   and nobody called {@link Semaphore.setPermits}
 *
 * @example
 * ```ts
 * const partner = holdfast.getSemaphore('api:partner', { permits: 10 });
 * await partner.withPermits({ permits: 4, wait: 30_000 }, async ({ signal }) => {
 *   await fetch('https://partner.example/', { signal });
 * });
 * ```
 *
 * @group Semaphores
 */
export interface Semaphore {
  /** The name that was given to `getSemaphore`. */
  readonly name: string;

  /**
   * Acquires permits and returns a {@link PermitHold}, which any code may release.
   *
   * @param options - `permits` is 1 by default; `wait` is the client's `wait`, and without that 1.5 x
   *   `lockWatchdogTimeout`, 45,000
   * @throws {@link LockTimeoutError} too few permits were free, or others were first, until `wait` ran out
   * @throws {@link UnavailableError} or another error that {@link Semaphore} lists
   */
  acquire(options?: PermitOptions): Promise<PermitHold>;

  /**
   * Acquires permits like {@link Semaphore.acquire}, but makes only one attempt by default.
   *
   * @param options - `permits` is 1 by default, `wait` 0
   * @returns undefined if too few permits were free, or others were first
   * @throws {@link UnavailableError} or another error that {@link Semaphore} lists
   */
  tryAcquire(options?: PermitOptions): Promise<PermitHold | undefined>;

  /**
   * Acquires one permit, runs `fn`, and releases the permit whatever happens. It waits for the client's `wait`, and without that
   * for 1.5 x `lockWatchdogTimeout`, 45 s.
   *
   * If `fn` throws, the caller gets exactly that error, also when the permit was lost. A release that Redis does not answer is an `error`
   * event, and does not throw.
   *
   * `fn` must await all its work. If its hold is used after it has ended, a `warning` says so, once for each name.
   *
   * @returns what `fn` returns
   * @throws {@link OptionError} `fn` resolved to a generator object, a stream or an Observable, whose work would begin after the release; a
   *   stream or generator was ended
   * @throws {@link LockTimeoutError} no permit was free, or others were first, until that wait ran out; `fn` was not called
   * @throws {@link LockLostError} `fn` succeeded, but the permit was lost before it was released
   * @throws {@link ClosedError} the client is closed; or `fn` succeeded, and the client was closed before Redis answered the release
   * @throws {@link UnavailableError} or another error that {@link Semaphore} lists; `fn` was not called
   */
  withPermits<T>(fn: (hold: PermitHold) => T | Promise<T>): Promise<T>;
  /**
   * Acquires the permits that the options ask for, runs `fn`, and releases them as `withPermits(fn)` does.
   *
   * @param options - `permits` is 1 by default; `wait` is the client's `wait`, and without that 1.5 x
   *   `lockWatchdogTimeout`, 45,000
   * @returns what `fn` returns
   * @throws {@link LockTimeoutError} too few permits were free, or others were first, until `wait` ran out; `fn` was not called
   * @throws {@link LockLostError} `fn` succeeded, but the permits were lost before they were released
   * @throws {@link ClosedError} the client is closed; or `fn` succeeded, and the client was closed before Redis answered the release
   * @throws {@link UnavailableError} or another error that {@link Semaphore} lists; `fn` was not called
   */
  withPermits<T>(options: PermitOptions, fn: (hold: PermitHold) => T | Promise<T>): Promise<T>;

  /**
   * Sets how many permits there are for all clients, whatever number they declare, until 30 days after a client last needed it. Lowering
   * the number revokes nothing: nobody gets a permit until it fits. A waiter that asks for more permits than there are now fails with an
   * {@link OptionError} when it comes first in the queue.
   *
   * @param permits - a whole number from 1 to 2^31-1
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, its memory is full, or too few replicas acknowledged it:
   *   the number may or may not be set
   * @throws {@link ClosedError} the client is closed, or was closed before Redis answered
   * @throws {@link OptionError} `permits` is not usable
   */
  setPermits(permits: number): Promise<void>;

  /**
   * How many permits nobody holds; waiters in the queue come before a new caller. Asks the server, which goes through all holders.
   *
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link ClosedError} the client is closed
   */
  availablePermits(): Promise<number>;

  /**
   * The owners that wait in the queue, the next one first. Walks the whole queue: for debugging, not for hot paths.
   *
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link ClosedError} the client is closed
   */
  getWaiters(): Promise<PermitWaiter[]>;

  /** Its kind, name and declared number; the server is not asked. */
  toJSON(): SemaphoreDescription;
}
