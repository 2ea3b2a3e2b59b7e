// A lock as the caller sees it: the same surface for every kind of lock.

import { inspect, type InspectOptionsStylized } from 'node:util';
import { inspected, type LockDescription } from './description.js';
import { LockTimeoutError, OptionError } from './errors.js';
import type { Hold, HoldOrigin, OwnHold } from './hold.js';
import {
  parseFunction,
  parseOptions,
  parseRequest,
  type AcquireOptions,
  type AcquireRequest,
  type LockOptions,
} from './options.js';
import { currentScope, Scope } from '../scopes/scope.js';
import { shown } from './shown.js';

/** As which owner a client holds a lock, and for how long it may rely on that. */
export interface HeldHere {
  readonly ownerId: string;
  readonly remainingMs: number;
}

const ALL_OPTIONS = ['wait', 'lease', 'signal'] as const;

/**
 * A lock by its name. Objects are light and keep no state of their own: get one where you need it, or keep it and
 * share it between callers; who holds it is a matter of scopes, not of objects.
 *
 * All times are milliseconds. Every method that acquires may throw, besides what it names:
 * {@link UnavailableError} when Redis could not be asked in time, {@link ClosedError}, {@link KeyConflictError},
 * {@link OptionError}, {@link LockAbortedError} when its signal aborts, and {@link LockLostError} when it is nested in
 * a hold that was lost.
 *
 * @group Locks
 */
export abstract class Lock {
  /** The name, as it was given to `getLock`; of a MultiLock, the names of its members. */
  abstract readonly name: string;

  /**
   * Acquires it for the innermost `run`, or anonymously; waits for ever. Undo it by {@link Lock.unlock}.
   *
   * @param lease - milliseconds; left out or -1: the watchdog renews `lockWatchdogTimeout` until the unlock
   */
  async lock(lease?: number | LockOptions): Promise<void> {
    const options =
      typeof lease === 'object'
        ? parseOptions('the options of lock()', lease, ['lease', 'signal'], this.name)
        : { lease };
    await this.acquireHold(parseRequest(this.name, options, Infinity), 'lock');
  }

  /**
   * Like {@link Lock.lock}, but waits for at most `wait`.
   *
   * @param wait - milliseconds, 0 by default: one attempt, bounded by `commandTimeout`; `Infinity`: for ever
   * @param lease - as in {@link Lock.lock}
   * @returns false when somebody else had it all the time
   */
  async tryLock(wait?: number | AcquireOptions, lease?: number): Promise<boolean> {
    const hasOptions = typeof wait === 'object';
    if (hasOptions && lease !== undefined) {
      throw new OptionError(
        `lock "${this.name}": tryLock() was given a lease of ${shown(lease)} beside its options: it must be one of them`,
        { lockName: this.name },
      );
    }
    const options = hasOptions
      ? parseOptions('the options of tryLock()', wait, ALL_OPTIONS, this.name)
      : { wait, lease };
    return (await this.#tryAcquire(parseRequest(this.name, options, 0), 'lock')) !== undefined;
  }

  /**
   * Undoes the latest `lock()` or `tryLock()` of the innermost `run`; outside any run the oldest one of this client.
   *
   * @throws {@link LockNotHeldError} there is none to undo
   * @throws {@link LockLostError} the lock was lost before
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`; the lock is removed from the server as
   *   soon as that can be reached, and there is nothing left to undo
   */
  abstract unlock(): Promise<void>;

  /**
   * Acquires it and hands it over as a {@link Hold}, which any code may release. Inside a `run`, nested calls re-enter it.
   *
   * @param options - `wait` is `Infinity` by default
   * @throws {@link LockTimeoutError} somebody else had it until `wait` ran out
   */
  acquire(options?: AcquireOptions): Promise<Hold> {
    // Not async: the promise that the caller gets is the only one that is made for it.
    try {
      const request = this.#request('the options of acquire()', options, Infinity);
      return this.acquireHold(request, 'acquire');
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      return Promise.reject(error);
    }
  }

  /**
   * Like {@link Lock.acquire}, but makes one attempt by default.
   *
   * @param options - `wait` is 0 by default
   * @returns undefined when somebody else had it all the time
   */
  async tryAcquire(options?: AcquireOptions): Promise<Hold | undefined> {
    return await this.#tryAcquire(
      this.#request('the options of tryAcquire()', options, 0),
      'acquire',
    );
  }

  /**
   * Acquires it, runs `fn`, and releases it whatever happens. Acquisitions of the same lock inside `fn` re-enter it, one
   * at a time. An error of `fn` is what the caller sees, also when the lock was lost. Waits for ever.
   *
   * @returns what `fn` returns
   * @throws {@link LockLostError} `fn` succeeded, but the lock was lost before it was released
   */
  async withLock<T>(fn: (hold: Hold) => T | Promise<T>): Promise<T>;
  /**
   * The same, with options.
   *
   * @param options - `wait` is `Infinity` by default
   * @returns what `fn` returns
   * @throws {@link LockTimeoutError} somebody else had it until `wait` ran out; `fn` was not called
   * @throws {@link LockLostError} `fn` succeeded, but the lock was lost before it was released
   */
  async withLock<T>(options: AcquireOptions, fn: (hold: Hold) => T | Promise<T>): Promise<T>;
  async withLock<T>(
    ...args: [(hold: Hold) => T | Promise<T>] | [AcquireOptions, (hold: Hold) => T | Promise<T>]
  ): Promise<T> {
    const [options, fn] = args.length === 1 ? [undefined, args[0]] : args;
    if (typeof options === 'function') {
      throw new OptionError(
        `lock "${this.name}": withLock() was given a function and then ${shown(fn)}: its options come first, then the function`,
        { lockName: this.name },
      );
    }
    const request = this.#request('the options of withLock()', options, Infinity);
    parseFunction(fn, 'the function given to withLock()', this.name);
    const scope = new Scope(currentScope(), false);
    const hold = await this.acquireHold(request, 'withLock', scope);
    let result: T;
    try {
      result = await scope.run(() => fn(hold));
    } catch (error) {
      await hold.releaseQuietly().catch(() => undefined); // that it was lost is told by its signal and the event
      throw error;
    }
    await hold.releaseQuietly();
    return result;
  }

  /** Whether anybody holds it. @throws {@link UnavailableError} */
  abstract isLocked(): Promise<boolean>;

  /** Whether the caller is inside a hold of it; outside all scopes, whether `unlock()` has one to undo. Asks the server. */
  async isHeldByCurrentOwner(): Promise<boolean> {
    return (await this.getHoldCount()) > 0;
  }

  /** How often the caller's owner holds it; 0: not at all. Asks the server. */
  abstract getHoldCount(): Promise<number>;

  /** Milliseconds until its lease ends, whoever holds it; -2: nobody does, -1: it has no expiry. */
  abstract remainTimeToLive(): Promise<number>;

  /**
   * Frees it whoever holds it. The holder learns it at its next renewal at the latest; until then both may work.
   *
   * @returns whether it was held
   * @throws {@link UnavailableError} Redis did not answer: it may or may not have been freed
   */
  abstract forceUnlock(): Promise<boolean>;

  /** Its kind and name, and whether this client holds it; the server is not asked. */
  toJSON(): LockDescription {
    const { kind, name, held } = this;
    if (!held) return { kind, name, state: 'not held by this client' };
    const { ownerId, remainingMs } = held;
    return {
      kind,
      name,
      state: 'held by this client',
      ownerId,
      remainingMs: Math.round(remainingMs),
    };
  }

  /** The same for `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptionsStylized): string {
    const { kind, ...description } = this.toJSON();
    return inspected(kind, description, depth, options);
  }

  /** For people. @internal */
  protected abstract readonly kind: string;

  /** What this client holds of it, as far as it may rely on that. @internal */
  abstract readonly held: HeldHere | undefined;

  /** Acquires it; `scope` is that of a `withLock`. @internal */
  protected abstract acquireHold(
    request: AcquireRequest,
    origin: HoldOrigin,
    scope?: Scope,
  ): Promise<OwnHold>;

  #request(
    what: string,
    options: AcquireOptions | undefined,
    defaultWaitMs: number,
  ): AcquireRequest {
    const given = options === undefined ? {} : parseOptions(what, options, ALL_OPTIONS, this.name);
    return parseRequest(this.name, given, defaultWaitMs);
  }

  async #tryAcquire(request: AcquireRequest, origin: HoldOrigin): Promise<Hold | undefined> {
    try {
      return await this.acquireHold(request, origin);
    } catch (error) {
      if (error instanceof LockTimeoutError) return undefined;
      throw error;
    }
  }
}
