// A semaphore as the caller sees it: so many permits, each a lease, first come first served.

import type { HoldDescription } from './description.js';
import type { Hold } from './lock.js';
import type { AcquireOptions } from './options.js';

/**
 * Options of `getSemaphore()`.
 *
 * @group Semaphores
 */
export interface SemaphoreOptions {
  /** How many permits there are: a whole number from 1 to 2^31-1, the same for all who use the semaphore. */
  permits: number;
}

/**
 * How permits may be asked for; times in milliseconds.
 *
 * @group Semaphores
 */
export interface PermitOptions extends AcquireOptions {
  /** How many permits at once: a whole number from 1 to 2^31-1. Default: 1. */
  permits?: number | undefined;
}

/**
 * Permits that were acquired. It is a capability: whoever has it may release it, from anywhere.
 *
 * `await using hold = await semaphore.acquire()` releases them at the end of the block. `lockName` is the semaphore's name.
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
 * What a hold of permits tells of itself by `JSON.stringify` and `util.inspect`.
 *
 * @group Descriptions
 */
export interface PermitHoldDescription extends Omit<HoldDescription, 'token'> {
  /** How many permits it holds. */
  permits: number;
}

/**
 * Who waits in line for permits.
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
 * What a semaphore tells of itself by `JSON.stringify` and `util.inspect`.
 *
 * @group Descriptions
 */
export interface SemaphoreDescription {
  /** What kind of object it is. */
  kind: 'Semaphore';
  /** Its name, as it was given to `getSemaphore`. */
  name: string;
  /** How many permits it was declared with. */
  permits: number;
}

/**
 * So many permits, over all processes. They are given in the order in which callers joined the line, also where they want different
 * numbers: nobody overtakes, so large requests do not starve. Permits are leases: the watchdog renews them, a dead holder's come back
 * when its lease ends, and one that lost them learns it (`hold.signal`, the `lost` event, {@link LockLostError}).
 *
 * Each acquisition is an owner of its own. There is no re-entry: who holds permits and asks for more, waits like everybody. A call
 * inside `withPermits()` that waits for the permits around it is told by a `warning`, after 5 s.
 *
 * Every method that acquires may throw, besides what it names: {@link UnavailableError} when Redis could not be asked in time,
 * {@link ClosedError}, {@link LockAbortedError} when its signal aborts, {@link KeyConflictError} when the name is that of another kind
 * of lock, and {@link OptionError} when an option is not usable, more permits are asked for than there are, or others declared the
 * semaphore with another number and nobody called {@link Semaphore.setPermits}.
 *
 * @group Semaphores
 */
export interface Semaphore {
  /** The name, as it was given to `getSemaphore`. */
  readonly name: string;

  /**
   * Acquires permits.
   *
   * @param options - `permits` is 1 by default, `wait` that of the client's options, and without that `Infinity`
   * @throws {@link LockTimeoutError} there were not so many free, or others were first, until `wait` ran out
   */
  acquire(options?: PermitOptions): Promise<PermitHold>;

  /**
   * Like {@link Semaphore.acquire}, but makes one attempt by default.
   *
   * @param options - `permits` is 1 by default, `wait` 0
   * @returns undefined when there were not so many free, or others were first
   */
  tryAcquire(options?: PermitOptions): Promise<PermitHold | undefined>;

  /**
   * Acquires one permit, runs `fn`, and releases it whatever happens. An error of `fn` is what the caller sees, also when the permit was
   * lost. Waits for as long as the `wait` of the client's options says, by default for ever.
   *
   * @returns what `fn` returns
   * @throws {@link LockTimeoutError} no permit was to be had until the client's `wait` ran out; `fn` was not called
   * @throws {@link LockLostError} `fn` succeeded, but the permit was lost before it was released
   * @throws {@link ClosedError} also when `fn` succeeded, and the client was closed before Redis had answered the release
   */
  withPermits<T>(fn: (hold: PermitHold) => T | Promise<T>): Promise<T>;
  /**
   * Acquires the permits that the options ask for, runs `fn`, and releases them as `withPermits(fn)` does.
   *
   * @param options - `permits` is 1 by default, `wait` that of the client's options, and without that `Infinity`
   * @returns what `fn` returns
   * @throws {@link LockTimeoutError} the permits were not to be had until `wait` ran out; `fn` was not called
   * @throws {@link LockLostError} `fn` succeeded, but the permits were lost before they were released
   * @throws {@link ClosedError} also when `fn` succeeded, and the client was closed before Redis had answered the release
   */
  withPermits<T>(options: PermitOptions, fn: (hold: PermitHold) => T | Promise<T>): Promise<T>;

  /**
   * Sets how many permits there are, for everybody, whatever number they declare, from now until thirty days after somebody last
   * needed it. If more are held, nobody is put out: no permit is given until it fits. A waiter that wants more than that fails with
   * an {@link OptionError} when it comes first.
   *
   * @param permits - a whole number from 1 to 2^31-1
   * @throws {@link KeyConflictError} something that is no semaphore has the name
   * @throws {@link UnavailableError} Redis did not answer, its memory is full, or too few replicas acknowledged it: it may or may not be set
   */
  setPermits(permits: number): Promise<void>;

  /**
   * How many permits nobody holds; those who wait in line are before you. Asks the server, which looks at all holders.
   *
   * @throws {@link KeyConflictError} something that is no semaphore has the name
   * @throws {@link UnavailableError}
   */
  availablePermits(): Promise<number>;

  /**
   * Who waits in line, the next one first. Walks the whole line: for people, not for hot paths.
   *
   * @throws {@link KeyConflictError} something that is no semaphore has the name
   * @throws {@link UnavailableError}
   */
  getWaiters(): Promise<PermitWaiter[]>;

  /** Its kind, name and declared number; the server is not asked. */
  toJSON(): SemaphoreDescription;
}
