// The lock() and tryLock() calls that are under way, the warnings of those that are probably mistakes, and the error of an unlock()
// without one.

import type { Call } from '../runtime/wait-limit.js';
import type { Warnings } from './warnings.js';
import { LockNotHeldError } from '../api/errors.js';
import type { NamedLock } from './granted-lock.js';
import type { HoldOrigin } from './own-hold.js';
import { actingScope, currentScope, type Scope } from '../scopes/scope.js';

/** What is needed of the session. */
interface Calls {
  readonly warnings: Warnings;
  readonly acquisitions: ReadonlySet<Call>;
}

/** A shorter lease was probably meant in seconds. */
const SHORT_LEASE_MS = 100;

/**
 * A `lock()` or `tryLock()` begins, in the scope `position`. Returns what to call when it ends; undefined: nothing is kept of it, since
 * it is outside any run, or a call of another kind.
 */
export function lockCallBegins(
  session: Pick<Calls, 'warnings'>,
  { id, name, isShared }: NamedLock & { readonly isShared?: boolean },
  origin: HoldOrigin,
  leaseMs: number | undefined,
  position: Scope | undefined,
): (() => void) | undefined {
  if (origin !== 'lock') return undefined;
  if (leaseMs !== undefined && leaseMs < SHORT_LEASE_MS)
    session.warnings.warnOnce('short lease', name, shortLeaseMessage(name, leaseMs));
  const calls = actingScope(position)?.lockCalls;
  if (!calls) return undefined;
  const before = calls.get(id) ?? 0;
  // (Readers are side by side whoever they are.)
  if (before > 0 && !isShared)
    session.warnings.warnOnce('overlapping calls', name, overlapMessage(name));
  calls.set(id, before + 1);
  return () => {
    const left = (calls.get(id) ?? 0) - 1;
    if (left > 0) calls.set(id, left);
    else calls.delete(id);
  };
}

/** The lock's id, by which a `lock()` or `tryLock()` outside any run is found while it is under way; undefined for any other call. */
export function anonymousLockId(
  origin: HoldOrigin,
  id: string,
  position: Scope | undefined,
): string | undefined {
  return origin === 'lock' && !actingScope(position) ? id : undefined;
}

/**
 * The error of an `unlock()` that has no call to undo. `isHeldAround`: the caller is inside a hold of the lock, or of that half of it.
 * `hasFailed`: the caller's own `lock()` or `tryLock()` did not get it.
 */
export function nothingToUnlock(
  { acquisitions }: Pick<Calls, 'acquisitions'>,
  { id, name, isShared }: NamedLock & { readonly isShared?: boolean },
  isHeldAround: boolean,
  hasFailed: boolean,
): LockNotHeldError {
  const acting = actingScope(currentScope());
  const isUnderWay = acting
    ? acting.lockCalls.has(id)
    : [...acquisitions].some(({ anonymousLockId }) => anonymousLockId === id);
  const half = isShared === undefined ? '' : ` of the ${isShared ? 'read' : 'write'} lock`;
  const why = hasFailed
    ? `the lock() or tryLock()${half} of this code did not get it; call unlock() only where tryLock() returned true, or use withLock(), or a holdfast.run() for each task`
    : isUnderWay
      ? 'its lock() or tryLock() is still under way, since it was not awaited'
      : isHeldAround
        ? 'it is held around this call by withLock(), a hold or an outer run, which releases it; unlock() undoes only lock() and tryLock()'
        : acting
          ? `this run has no lock() or tryLock()${half} to undo`
          : `no lock() or tryLock()${half} outside a run is left to undo`;
  return new LockNotHeldError(`lock "${name}" cannot be unlocked: ${why}`, { lockName: name });
}

function shortLeaseMessage(name: string, leaseMs: number): string {
  return (
    `lock "${name}" is taken with a lease of ${String(leaseMs)}: that is milliseconds, after which others get it; ` +
    `for seconds, give ${String(leaseMs * 1_000)}`
  );
}

function overlapMessage(name: string): string {
  return (
    `lock "${name}": two lock() or tryLock() calls of one run overlap; the run is one owner, so that both enter. ` +
    'For branches that shall take turns use lock.withLock(…), or a holdfast.run(…) for each'
  );
}
