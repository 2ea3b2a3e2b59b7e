// What all kinds of lock have in common: they parse the caller's arguments, and run the guarded function in a scope of its own.

import { inspect, type InspectOptions } from 'node:util';
import { inspected, type LockDescription } from '../api/description.js';
import { LockTimeoutError, OptionError } from '../api/errors.js';
import type { Hold, Lock } from '../api/lock.js';
import {
  type AcquireOptions,
  type AcquireRequest,
  ENDLESS,
  invalid,
  type LockOptions,
  ONE_ATTEMPT,
  parseFunction,
  parseOptions,
  parseRequest,
  shown,
  type Subject,
  type Wait,
} from '../api/options.js';
import type { HoldOrigin, OwnHold } from '../core/protocol.js';
import type { Session } from '../core/session.js';
import type { HoldWatch } from '../core/hold-watch.js';
import { whileHeld } from '../core/hold.js';
import { explainWrongCalls, KINDS } from '../core/wrong-calls.js';
import { rejecting } from '../runtime/node.js';
import { actingScope, currentScope, Scope } from '../scopes/scope.js';
import { leaveMarks, type MarkedLock } from '../scopes/anonymous.js';

/** The owner by which a client holds a lock, and for how long it may rely on that. */
export interface HeldHere {
  readonly ownerId: string;
  readonly remainingMs: number;
}

/** How long calls wait that set no `wait`. */
export type DefaultWaits = Pick<Session, 'wait' | 'defaultWait'>;

const LOCK_OPTIONS = ['lease', 'lockAtLeastFor', 'signal', 'label'] as const;
const ALL_OPTIONS = ['wait', ...LOCK_OPTIONS] as const;

export abstract class BaseLock implements Lock {
  static {
    explainWrongCalls(BaseLock, KINDS.lock);
  }

  abstract readonly name: string;

  lock(lease?: number | LockOptions): Promise<void> {
    return this.marking(
      () => this.lockHold('lock()', lease),
      () => undefined,
    );
  }

  tryLock(wait?: number | AcquireOptions, lease?: number): Promise<boolean> {
    return this.marking(
      () => this.tryLockHold('tryLock()', wait, lease),
      (hold) => hold !== undefined,
    );
  }

  abstract unlock(): Promise<void>;

  acquire(options?: AcquireOptions): Promise<Hold> {
    return rejecting(() => {
      const request = this.#request(
        'the options of acquire()',
        options,
        this.defaultWaits.defaultWait,
      );
      return this.handedOut(() => this.acquireHold(request, 'acquire'));
    });
  }

  tryAcquire(options?: AcquireOptions): Promise<Hold | undefined> {
    return rejecting(() => {
      const request = this.#request('the options of tryAcquire()', options, ONE_ATTEMPT);
      const acquire = (): Promise<Hold> =>
        this.handedOut(() => this.acquireHold(request, 'acquire'));
      return unlessHeldElsewhere(acquire);
    });
  }

  withLock<T>(fn: (hold: Hold) => T | Promise<T>): Promise<T>;
  withLock<T>(options: AcquireOptions, fn: (hold: Hold) => T | Promise<T>): Promise<T>;
  withLock<T>(...args: Guarded<AcquireOptions, (hold: Hold) => T | Promise<T>>): Promise<T> {
    return rejecting(() => {
      const [options, fn] = parseGuarded('withLock()', this.name, args);
      const request = this.#request(
        'the options of withLock()',
        options,
        this.defaultWaits.defaultWait,
      );
      const scope = new Scope(currentScope(), false);
      const acquiring = this.acquireHold(request, 'withLock', scope);
      return whileHeld('withLock()', acquiring, (hold) =>
        scope.run(() => hold.runInside(() => fn(hold))),
      );
    });
  }

  abstract isLocked(): Promise<boolean>;

  async isHeldByCurrentOwner(): Promise<boolean> {
    return (await this.getHoldCount()) > 0;
  }

  abstract getHoldCount(): Promise<number>;

  abstract remainTimeToLive(): Promise<number>;

  abstract forceUnlock(): Promise<boolean>;

  toJSON(): LockDescription {
    const { kind, name, held, isKept } = this;
    if (!held)
      return { kind, name, state: isKept ? 'kept by this client' : 'not held by this client' };
    const { ownerId, remainingMs } = held;
    return {
      kind,
      name,
      state: 'held by this client',
      ownerId,
      remainingMs: Math.round(remainingMs),
    };
  }

  /** What `toJSON` tells, for `util.inspect` and `console.log`. @internal */
  [inspect.custom](depth: number, options: InspectOptions): string {
    const { kind, ...description } = this.toJSON();
    return inspected(kind, description, depth, options);
  }

  /** The kind of lock, for messages and debugging. */
  protected abstract readonly kind: string;

  /** How long calls wait that set no `wait`. Not for `tryLock()` and `tryAcquire()`, which make one attempt. */
  protected abstract readonly defaultWaits: DefaultWaits;

  /** By which owner this client holds the lock, and for how long; undefined: it does not hold it, or may not rely on that. */
  abstract readonly held: HeldHere | undefined;

  /** Whether this client keeps the lock for its next caller, while no caller holds it. */
  abstract readonly isKept: boolean;

  /** The locks that `unlock()` undoes: this one, or the members of a MultiLock. */
  abstract readonly marked: readonly MarkedLock[];

  /**
   * Acquires for a call that `unlock()` undoes, and leaves marks in the caller's context, by which `unlock()` finds what that call acquired.
   * Callers must not await anything before calling this.
   */
  protected async marking<Held extends OwnHold | undefined, T>(
    acquire: () => Promise<Held>,
    resultOf: (hold: Held) => T,
  ): Promise<T> {
    const marks = actingScope(currentScope()) ? [] : leaveMarks(this.marked);
    let hold: Held | undefined;
    try {
      hold = await rejecting(acquire);
      return resultOf(hold);
    } finally {
      for (const [index, mark] of marks.entries()) mark.settle(hold?.members[index]);
    }
  }

  /** Finds holds that were forgotten; undefined: none are looked for. */
  protected abstract readonly holdWatch: HoldWatch | undefined;

  /** Acquires for a caller that gets the hold itself. */
  protected handedOut<Held extends OwnHold>(acquire: () => Promise<Held>): Promise<Held> {
    const { holdWatch } = this;
    if (!holdWatch) return acquire();
    const stack = holdWatch.here;
    return acquire().then((hold) => holdWatch.handOut(hold, hold.watched, stack));
  }

  /** Acquires for `lock()` or `lockAndGetToken()`, which `call` names in errors. `unlock()` undoes it. */
  protected lockHold(call: string, lease: number | LockOptions | undefined): Promise<OwnHold> {
    const options =
      typeof lease === 'object'
        ? parseOptions(`the options of ${call}`, lease, LOCK_OPTIONS, this.name)
        : { lease };
    const { wait = ENDLESS } = this.defaultWaits;
    return this.acquireHold(parseRequest(this.name, options, wait), 'lock');
  }

  /** Acquires for `tryLock()` or `tryLockAndGetToken()`, which `call` names in errors; undefined: another owner has the lock. */
  protected tryLockHold(
    call: string,
    wait: number | AcquireOptions | undefined,
    lease: number | undefined,
  ): Promise<OwnHold | undefined> {
    const hasOptions = typeof wait === 'object';
    if (hasOptions && lease !== undefined) {
      throw new OptionError(
        `lock "${this.name}": ${call} was given a lease of ${shown(lease)} beside its options: it must be one of them`,
        { lockName: this.name },
      );
    }
    const options = hasOptions
      ? parseOptions(`the options of ${call}`, wait, ALL_OPTIONS, this.name)
      : { wait, lease };
    const request = parseRequest(this.name, options, ONE_ATTEMPT);
    return unlessHeldElsewhere(() => this.acquireHold(request, 'lock'));
  }

  /** Acquires the lock. `scope`: the scope that a `withLock` opens. */
  protected abstract acquireHold(
    request: AcquireRequest,
    origin: HoldOrigin,
    scope?: Scope,
  ): Promise<OwnHold>;

  #request(what: string, options: AcquireOptions | undefined, defaultWait: Wait): AcquireRequest {
    const given = options === undefined ? {} : parseOptions(what, options, ALL_OPTIONS, this.name);
    return parseRequest(this.name, given, defaultWait);
  }
}

/** The arguments of a method that runs a function while something is held: options, if any, and the function. */
export type Guarded<Options, Fn> = [fn: Fn] | [options: Options, fn: Fn];

/** `call`: the method that got these arguments, for errors. */
export function parseGuarded<Options, Fn>(
  call: string,
  subject: Subject,
  args: Guarded<Options, Fn>,
): [options: Options | undefined, fn: Fn] {
  const [options, fn] = args.length === 1 ? [undefined, args[0]] : args;
  if (typeof options === 'function')
    throw invalid(
      `what ${call} was given behind a function`,
      fn,
      'the function: its options come first, then the function',
      subject,
    );
  parseFunction(fn, `the function given to ${call}`, subject);
  return [options, fn];
}

/** The result of `acquire`; undefined: another owner has the lock. */
export async function unlessHeldElsewhere<T>(acquire: () => Promise<T>): Promise<T | undefined> {
  try {
    return await rejecting(acquire);
  } catch (error) {
    if (error instanceof LockTimeoutError) return undefined;
    throw error;
  }
}
