// Detects probable mistakes of the caller, and reports them.

// Calls that wait for themselves. If the asynchronous context shows that the caller already holds the lock, a warning follows after 5 s. A
// hold of acquire() leaves no trace in the context: there, a call that has waited long for one and the same hold may be nested in it.

import { type AcquireRequest, SHORT_MS } from '../api/options.js';
import type { AcquirableLock, HoldOrigin, LockRequest, NamedLock, SelfWait } from './protocol.js';
import {
  callerHolds,
  mayBeNestedMessage,
  overlapMessage,
  selfWaitMessage,
  shortTimeMessage,
  UNLOCK_MISTAKES,
  unlockRefused,
} from './messages.js';
import { neighbourOf } from './neighbours.js';
import type { Session } from './session.js';
import type { Due, Scheduled } from '../runtime/schedule.js';
import { heldByCaller, latestKind, type MarkedLock } from '../scopes/anonymous.js';
import { actingScope, currentScope, type Scope } from '../scopes/scope.js';
import type { LockNotHeldError } from '../api/errors.js';

/**
 * How long a call waits for itself before the warning, in milliseconds. Longer than most holds, to avoid false alarms: work that a loop
 * starts without awaiting it inherits the marks of the work started before, and waits for that, which ends.
 */
const SELF_WAIT_WARNING_MS = 5_000;

/** How long a call waits for one anonymous hold of this client, in which it may be nested, before the warning; in milliseconds. */
const MAY_BE_NESTED_MS = 30_000;

/** Whether the current call waits for itself: for a `lock()` or `tryLock()` of its own caller, outside any run. undefined: it does not. */
export function selfWaitOf(lock: MarkedLock): SelfWait | undefined {
  const mark = heldByCaller(lock);
  if (!mark) return undefined;
  return () => {
    const { hold } = mark;
    return hold && { ownerId: hold.ownerId, why: callerHolds(hold.ownerId, hold.isShared) };
  };
}

/** A waiting call. Emits one warning if it waits for itself, or may do so. */
export class NestedCall implements Due {
  scheduled: Scheduled | undefined;
  readonly #session: Session;
  readonly #lock: AcquirableLock;
  readonly #sinceMs: number;
  /** Whether the call is made in a run, where a `lock()` around that run leaves no mark. */
  readonly #isInRun: boolean;
  readonly #selfWait: SelfWait | undefined;
  readonly #holder: () => string;

  /** `holder`: the owner that has the lock, by the latest answer. */
  constructor(
    session: Session,
    lock: AcquirableLock,
    position: Scope | undefined,
    selfWait: SelfWait | undefined,
    holder: () => string,
  ) {
    const { schedule } = session;
    this.#session = session;
    this.#lock = lock;
    this.#sinceMs = schedule.clock.nowMs();
    this.#isInRun = actingScope(position) !== undefined;
    this.#selfWait = selfWait;
    this.#holder = holder;
    if (selfWait) schedule.within(this, SELF_WAIT_WARNING_MS);
    // Not for permits: long waits for them are normal.
    else if (lock.isReentrant !== false) schedule.within(this, MAY_BE_NESTED_MS);
  }

  end(): void {
    this.#session.schedule.delete(this);
  }

  due(): void {
    if (this.#selfWait) this.#warnOfSelfWait(this.#selfWait);
    else this.#warnIfNested();
  }

  #warnOfSelfWait(selfWait: SelfWait): void {
    const found = selfWait();
    if (!found) return;
    const { name, isReentrant } = this.#lock;
    const message = selfWaitMessage(name, isReentrant !== false, found.why);
    this.#session.warnings.warn('nested call', name, message, found.ownerId);
  }

  /** Warns if the call has waited long enough for one and the same hold; otherwise checks again later. */
  #warnIfNested(): void {
    const { anonymous, schedule, warnings } = this.#session;
    const { id, name } = this.#lock;
    const ours = anonymous.held(id);
    const holder = this.#holder();
    const hold = ours ?? neighbourOf(this.#session, holder)?.held(holder)?.anonymous;
    // Outside any run, the context already shows that the call is not nested in a lock() or tryLock().
    const mayBeNested = hold !== undefined && (!hold.isUnlockable || this.#isInRun);
    const waitedMs = schedule.clock.nowMs() - this.#sinceMs;
    const leftMs = MAY_BE_NESTED_MS - (mayBeNested ? Math.min(waitedMs, hold.heldForMs) : 0);
    if (!mayBeNested || leftMs > 0) schedule.within(this, leftMs);
    else {
      const message = mayBeNestedMessage(name, hold.ownerId, hold.isShared, hold === ours);
      warnings.warn('nested call', name, message, hold.ownerId);
    }
  }
}

// The lock() and tryLock() calls under way, warnings about probable mistakes, and the error of an unlock() without such a call.

/**
 * A `lock()` or `tryLock()` begins, in the scope `position`. Returns the function to call when it ends; undefined: the call is not
 * recorded, since it is outside any run, or of another kind.
 */
export function lockCallBegins(
  session: Pick<Session, 'warnings'>,
  { id, name, isShared }: NamedLock & { readonly isShared?: boolean },
  origin: HoldOrigin,
  position: Scope | undefined,
): (() => void) | undefined {
  if (origin !== 'lock') return undefined;
  const calls = actingScope(position)?.lockCalls;
  if (!calls) return undefined;
  const before = calls.get(id) ?? 0;
  // (Readers may overlap.)
  if (before > 0 && !isShared)
    session.warnings.warnOnce('overlapping calls', name, overlapMessage(name));
  calls.set(id, before + 1);
  return () => {
    const left = (calls.get(id) ?? 0) - 1;
    if (left > 0) calls.set(id, left);
    else calls.delete(id);
  };
}

/** Warns once a lock of a lease, or a `lockAtLeastFor`, that was probably meant in seconds. An adoption goes on with a rest of the latter. */
export function warnOfShortTimes(
  session: Pick<Session, 'warnings'>,
  lock: Pick<AcquirableLock, 'name' | 'isReentrant'>,
  { leaseMs = SHORT_MS, atLeastMs, adopts }: ShortTimes,
): void {
  if (leaseMs < SHORT_MS) warnOfShortTime(session, lock, 'the lease', leaseMs);
  else if (atLeastMs > 0 && atLeastMs < SHORT_MS && !adopts)
    warnOfShortTime(session, lock, 'lockAtLeastFor', atLeastMs);
}

type ShortTimes = Pick<AcquireRequest, 'leaseMs' | 'atLeastMs'> & Pick<LockRequest, 'adopts'>;

/** `what`: the name of the time, in words. */
export function warnOfShortTime(
  { warnings }: Pick<Session, 'warnings'>,
  lock: Pick<AcquirableLock, 'name' | 'isReentrant'>,
  what: string,
  ms: number,
): void {
  if (ms < SHORT_MS) warnings.warnOnce('short time', lock.name, shortTimeMessage(lock, what, ms));
}

/** The error of an `unlock()` without a call to undo. `isHeldAround`: a hold of the lock (or this half) is around. `marked`: it, or its members. */
export function nothingToUnlock(
  { id, name, isShared }: NamedLock & { readonly isShared?: boolean },
  isHeldAround: boolean,
  marked: readonly MarkedLock[],
): LockNotHeldError {
  const acting = actingScope(currentScope());
  const known = acting ? [acting.lockCalls.has(id) && 'pending'] : marked.map(latestKind);
  const isAcquired =
    !acting && marked.some(({ holds, lock }) => holds.held(lock.id)?.isUnlockable === false);
  const found = [
    ...known,
    isHeldAround && 'held around',
    isAcquired && 'acquired',
    acting && 'none in this run',
  ];
  const mistake = UNLOCK_MISTAKES.find((each) => found.includes(each)) ?? 'none outside a run';
  return unlockRefused(name, isShared, mistake, acting !== undefined);
}
