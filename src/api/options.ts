// Reads the arguments and options of callers; what is wrong with them is an error before anything is sent.

import { inspect } from 'node:util';
import { MAX_TIMER_MS } from '../runtime/clock.js';
import { OptionError } from './errors.js';

/**
 * Options of an acquisition; times in milliseconds.
 *
 * @group Locks
 */
export interface AcquireOptions {
  /**
   * How long the call may take at most: 0 or more, or `Infinity`: forever. 0: one attempt, bounded by `commandTimeout`. However short it
   * is, an attempt that was sent has 100 ms for its answer. Default: the client's `wait`, and without that 1.5 x `lockWatchdogTimeout`,
   * 45,000; 0 for `tryLock()`, `tryAcquire()` and `tryLockAndGetToken()`.
   */
  wait?: number | undefined;
  /**
   * How long the lock is kept without a renewal: a whole number of at least 1. Omitted or -1: `lockWatchdogTimeout`, which the watchdog
   * renews until the release.
   */
  lease?: number | undefined;
  /**
   * For how long the lock stays taken at least, counted from when it was acquired, though it is released, its client is closed or its
   * process ends: a whole number of at least 0. Nobody gets the lock earlier, in this process either. The lease is at least as long.
   * Default: 0.
   */
  lockAtLeastFor?: number | undefined;
  /** Ends the wait, but no hold, when it aborts: the call throws {@link LockAbortedError}. */
  signal?: AbortSignal | undefined;
  /** A free text that says what the lock is taken for: `holdfast.held()`, events and messages on channels show it. Default: none. */
  label?: string | undefined;
}

/**
 * Options of `lock()` and `lockAndGetToken()`. They wait for the client's `wait`, and without that forever.
 *
 * @group Locks
 */
export type LockOptions = Omit<AcquireOptions, 'wait'>;

/**
 * Options of `getRedLock()`; times in milliseconds.
 *
 * @group Locks
 */
export interface RedLockOptions {
  /** How long one master may take to answer before it counts as unreachable. Default: 50; from 1 to 2^31-1. */
  nodeTimeout?: number | undefined;
  /**
   * How long after its start a master does not vote, since it may have forgotten a lock: from 0 to 2^31-1; `false`: it votes at once. For
   * fenced locks it must be at least 1, and should be longer than the masters' clocks differ.
   *
   * Default: it adapts to the longest lease that this client has used (at least `lockWatchdogTimeout`) or that the masters remember. It is
   * at least ten minutes while a master that does not answer may know of a longer lease.
   */
  restartGuard?: number | false | undefined;
  /** How often the watchdog extends the lease of a hold at most: a whole number of at least 0, or `Infinity`. Default: `Infinity`. */
  maxExtensions?: number | undefined;
}

/**
 * Options of `getLock()`.
 *
 * @group Locks
 */
export interface KeepOptions {
  /**
   * For how long the client keeps the lock after its last hold, so that its own next caller needs no command; milliseconds. A client that
   * wants the lock asks for it, and gets it after about two round trips. For a lock that mostly the same process takes: see "Kept locks".
   * Default: 0, not at all; up to `lockWatchdogTimeout / 9`, by default 3,333.
   */
  keep?: number | undefined;
}

/**
 * Options of `export()` of a hold; times in milliseconds.
 *
 * @group Holds
 */
export interface ExportOptions {
  /**
   * For how long another process may adopt the hold, or longer: an export never shortens the lease. A whole number of at least 1. Default:
   * `lockWatchdogTimeout`.
   */
  lease?: number | undefined;
}

/**
 * Options of `adopt()`; times in milliseconds.
 *
 * @group Holds
 */
export type AdoptOptions = Pick<AcquireOptions, 'lease' | 'signal' | 'label'>;

/** How long a call waits. */
export interface Wait {
  readonly waitMs: number;
  readonly waitIs: WaitIs;
}

/** `default`: neither the call nor its client has set it; `short`: it was probably meant in seconds. For errors. */
export type WaitIs = 'given' | 'default' | 'short';

/** The options of an acquisition, checked. */
export interface AcquireRequest extends Wait {
  /** undefined: the watchdog's lease, which it renews. */
  readonly leaseMs: number | undefined;
  /** For how long the lock stays taken at least. */
  readonly atLeastMs: number;
  readonly signal: AbortSignal | undefined;
  readonly label: string | undefined;
}

/** The subject of an error: a lock, by its name, or a semaphore. */
export type Subject = string | { readonly semaphore: string };

/** A longer name counts as a mistake. */
const MAX_NAME_BYTES = 1_024;

/** A shorter time, in milliseconds, was probably meant in seconds. */
export const SHORT_MS = 100;

/** The longest lease: Redis counts in 64 bits, JavaScript counts exactly up to this. */
const MAX_LEASE_MS = Number.MAX_SAFE_INTEGER;

export function parseName(name: unknown): string {
  if (typeof name !== 'string') throw invalid('lock name', name, 'a string');
  if (name === '') throw invalid('lock name', name, 'at least one character');
  const byteCount = Buffer.byteLength(name);
  if (byteCount > MAX_NAME_BYTES) {
    throw new OptionError(
      `lock name is ${String(byteCount)} bytes long (${shown(name.slice(0, 40))}…): at most ${String(MAX_NAME_BYTES)} are allowed`,
    );
  }
  if (!name.isWellFormed()) {
    throw invalid(
      'lock name',
      name,
      'well-formed Unicode; a lone surrogate would make different names the same key',
    );
  }
  return name;
}

/** Reads for how long a lock is kept, in milliseconds; 0: it is not kept. */
export function parseKeep(
  lockName: string,
  options: KeepOptions,
  lockWatchdogTimeoutMs: number,
): number {
  const { keep = 0 } = parseOptions('the options of getLock()', options, ['keep'], lockName);
  const most = Math.floor(lockWatchdogTimeoutMs / 9);
  if (isWholeNumber(keep, 0, most)) return keep;
  const right = `a whole number of milliseconds from 0 to ${String(most)}, a ninth of lockWatchdogTimeout`;
  throw invalid('keep', keep, right, lockName);
}

/** Reads a required lease: milliseconds, a whole number of at least 1. */
export function parseLease(lease: unknown, what: string, lockName?: string): number {
  if (isWholeNumber(lease, 1, MAX_LEASE_MS)) return lease;
  throw invalid(
    what,
    lease,
    `a whole number of milliseconds from 1 to ${String(MAX_LEASE_MS)}`,
    lockName,
  );
}

/** Reads the options of an acquisition, given one by one or as an options object. */
export function parseRequest(
  subject: Subject,
  given: Partial<Record<keyof AcquireOptions, unknown>>,
  defaultWait: Wait,
): AcquireRequest {
  const { waitMs, waitIs } =
    given.wait === undefined ? defaultWait : givenWait(parseWait(given.wait, subject));
  return {
    waitMs,
    waitIs,
    leaseMs: parseWatchedLease(given.lease, subject),
    atLeastMs: parseAtLeast(given.lockAtLeastFor, subject),
    signal: parseSignal(given.signal, subject),
    label: given.label === undefined ? undefined : parseText(given.label, 'label', subject),
  };
}

/**
 * Reads an options object. It may have known names only, since a misspelt `wait` would not be noticed; and it must be an object literal,
 * since a Promise, a Date or a lock of another copy of this package has none of these names, and would pass for no options.
 */
export function parseOptions<Option extends string>(
  what: string,
  given: unknown,
  known: readonly Option[],
  subject?: Subject,
): Partial<Record<Option, unknown>> {
  if (!isPlainObject(given)) {
    const right = `a plain object with any of ${known.join(', ')}`;
    throw new OptionError(`${about(subject)}${what} are ${shown(given)}: they must be ${right}`, {
      lockName: nameOf(subject),
    });
  }
  for (const name of Object.keys(given)) {
    if (!(known as readonly string[]).includes(name)) {
      throw new OptionError(
        `${about(subject)}${what} have no "${name}"; known are: ${known.join(', ')}`,
        { lockName: nameOf(subject) },
      );
    }
  }
  return given as Partial<Record<Option, unknown>>;
}

/** Reads a required duration: milliseconds, a whole number, at most the longest delay of a timer. */
export function parseDuration(
  durationMs: unknown,
  what: string,
  minimumMs: number,
  lockName?: string,
): number {
  if (isWholeNumber(durationMs, minimumMs, MAX_TIMER_MS)) return durationMs;
  const longest = `${String(MAX_TIMER_MS)} (24 days, the longest that a timer takes)`;
  const right = `a whole number of milliseconds from ${String(minimumMs)} to ${longest}`;
  throw invalid(what, durationMs, right, lockName);
}

/** Reads a count: a whole number of at least 0, up to `maximum` if that is given. */
export function parseCount(count: unknown, what: string, maximum?: number): number {
  if (isWholeNumber(count, 0, maximum)) return count;
  const range = maximum === undefined ? 'of at least 0' : `from 0 to ${String(maximum)}`;
  throw invalid(what, count, `a whole number ${range}`);
}

/** `maximum`: by default the largest number that is exact. */
export function isWholeNumber(
  value: unknown,
  minimum: number,
  maximum: number = Number.MAX_SAFE_INTEGER,
): value is number {
  return Number.isInteger(value) && (value as number) >= minimum && (value as number) <= maximum;
}

export function parseText(text: unknown, what: string, subject?: Subject): string {
  if (typeof text === 'string' && text !== '' && text.isWellFormed()) return text;
  throw invalid(what, text, 'a string of at least one character', subject);
}

export function parseBoolean(value: unknown, what: string, lockName?: string): boolean {
  if (typeof value === 'boolean') return value;
  throw invalid(what, value, 'true or false', lockName);
}

export function parseFunction(fn: unknown, what: string, subject?: Subject): void {
  if (typeof fn !== 'function') throw invalid(what, fn, 'a function', subject);
}

/** The wait of calls that make one attempt unless they say otherwise. */
export const ONE_ATTEMPT: Wait = { waitMs: 0, waitIs: 'default' };

/** The wait of `lock()` unless its client says otherwise: for ever, as in Redisson. */
export const ENDLESS: Wait = { waitMs: Infinity, waitIs: 'default' };

/** The wait of other calls unless they or their client say otherwise: it outlasts the lease of a holder that has died. */
export function patientWait(lockWatchdogTimeoutMs: number): Wait {
  return { waitMs: 1.5 * lockWatchdogTimeoutMs, waitIs: 'default' };
}

/** A wait that a caller has chosen. */
export function givenWait(waitMs: number): Wait {
  return { waitMs, waitIs: waitMs > 0 && waitMs < SHORT_MS ? 'short' : 'given' };
}

/** Reads how long a call may wait: milliseconds, 0 or more, or Infinity. */
export function parseWait(wait: unknown, subject?: Subject): number {
  if (typeof wait === 'number' && wait >= 0) return wait;
  throw invalid('wait', wait, 'a number of milliseconds of at least 0, or Infinity', subject);
}

function parseWatchedLease(lease: unknown, subject: Subject): number | undefined {
  if (lease === undefined || lease === -1) return undefined;
  if (isWholeNumber(lease, 1, MAX_LEASE_MS)) return lease;
  const right =
    'a whole number of milliseconds of at least 1; left out or -1, the watchdog renews it';
  throw invalid('lease', lease, right, subject);
}

function parseAtLeast(lockAtLeastFor: unknown = 0, subject: Subject): number {
  if (isWholeNumber(lockAtLeastFor, 0, MAX_LEASE_MS)) return lockAtLeastFor;
  const right = 'a whole number of milliseconds of at least 0';
  throw invalid('lockAtLeastFor', lockAtLeastFor, right, subject);
}

function parseSignal(signal: unknown, subject: Subject): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal;
  if (typeof signal === 'object' && signal !== null && 'aborted' in signal)
    throw new OptionError(
      `${about(subject)}signal is an AbortSignal of another library or realm, such as jsdom or a polyfill: it must be one of the global AbortController`,
      { lockName: nameOf(subject) },
    );
  throw invalid('signal', signal, 'an AbortSignal', subject);
}

export function invalid(
  what: string,
  value: unknown,
  right: string,
  subject?: Subject,
): OptionError {
  return new OptionError(`${about(subject)}${what} is ${shown(value)}: it must be ${right}`, {
    lockName: nameOf(subject),
  });
}

function about(subject: Subject | undefined): string {
  if (subject === undefined) return '';
  return typeof subject === 'string' ? `lock "${subject}": ` : `semaphore "${subject.semaphore}": `;
}

function nameOf(subject: Subject | undefined): string | undefined {
  return typeof subject === 'object' ? subject.semaphore : subject;
}

// Shows a caller's value in a few words for an error message: what it is, and never a password that may be in it.

/** A URL of any kind. A password may follow the scheme; in text without a scheme, it may stand before an "@". */
const URL_SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i;

/** Shows numbers, names and the like as they are written, and of anything else only what it is. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return inspect(withoutSecrets(value));
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return inspect(value);
  if (Array.isArray(value)) return `an array of ${String(value.length)}`;
  if (isPlainObject(value)) return Object.keys(value).length === 0 ? '{}' : 'an object';
  if ('then' in value) return 'a Promise (was an await forgotten?)';
  const { name } = (value as { constructor?: { name?: unknown } }).constructor ?? {};
  return typeof name === 'string' && name !== '' && name !== 'Object'
    ? `an instance of ${name}`
    : 'an object that inherits from another';
}

/** Whether it is an object literal, of any realm: no instance of a class, no array, no Promise, no Date. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function withoutSecrets(text: string): string {
  const scheme = URL_SCHEME.exec(text)?.[0];
  if (scheme !== undefined) return `${scheme}…`;
  const hostAt = text.lastIndexOf('@');
  return hostAt < 0 ? text : `…${text.slice(hostAt)}`;
}
