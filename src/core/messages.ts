// Builds the errors and messages for calls that fail: lock held, wait aborted, hold already released, upgrade refused.

import {
  LockAbortedError,
  LockLostError,
  LockNotHeldError,
  LockTimeoutError,
  LockUpgradeError,
  type LossReason,
  OptionError,
  QuorumError,
  type SeenHolder,
  UnavailableError,
} from '../api/errors.js';
import { failureKind, isReply } from '../redis/failure.js';
import type { AcquirableLock } from './protocol.js';
import { shownToken } from '../api/description.js';
import type { LostEvent } from '../api/events.js';

/** An attempt that began no longer ago than this when the wait ends is taken for slow, not for unanswered. */
export const SLOW_ANSWER_MS = 100;

/** The lock that a caller wanted, and of one that several may hold how many permits. */
type Wanted = Pick<AcquirableLock, 'name' | 'weight' | 'isReentrant'>;

/** Somebody else had the lock until the wait ran out, or its own caller: `hint` says what may help. */
export function heldElsewhere(
  lock: Wanted,
  waitMs: number,
  { holder, holderTtlMs }: SeenHolder,
  hint = '',
): LockTimeoutError {
  const { name: lockName } = lock;
  const message = `${wanted(lock)} not acquired within ${rounded(waitMs)} ms: ${inTheWay(lock, { holder, holderTtlMs })}${hint}`;
  return new LockTimeoutError(message, { lockName, holder, holderTtlMs });
}

function wanted({ name, weight, isReentrant }: Wanted): string {
  if (isReentrant !== false || weight === undefined) return `lock "${name}"`;
  return `semaphore "${name}": ${String(weight)} permit${weight === 1 ? '' : 's'}`;
}

/** Of a lock that several may hold one of them is known, or who is first in line; and of a fair lock that is free who is first. */
function inTheWay({ weight }: Wanted, { holder, holderTtlMs }: SeenHolder): string {
  if (weight !== undefined) return `${holder} is in the way, perhaps among others`;
  if (holderTtlMs < 0) return `held by ${holder}, without expiry`;
  if (holderTtlMs === 0) return `${holder} has it, or is the next to get it`;
  return `held by ${holder}, its lease ends in ${String(holderTtlMs)} ms unless renewed`;
}

/** `heldElsewhere` for a MultiLock, of which a member was held by somebody else. */
export function memberHeldElsewhere(
  lockName: string,
  waitMs: number,
  cause: LockTimeoutError,
): LockTimeoutError {
  const { lockName: member = '', holder = 'somebody', holderTtlMs = -1 } = cause;
  return new LockTimeoutError(
    `lock "${lockName}" not acquired within ${rounded(waitMs)} ms: its member "${member}" is held by ${holder}`,
    { lockName, holder, holderTtlMs, cause },
  );
}

/** The time that is left of a wait may have decimals, which a message need not show. */
function rounded(ms: number): string {
  return String(Math.round(ms));
}

/** A fenced lock is taken inside a hold of the same name that has no token to share. */
export function heldWithoutToken(lockName: string): OptionError {
  return new OptionError(
    `lock "${lockName}" is held around this call without a token: it must be taken by getFencedLock() there, too`,
    { lockName },
  );
}

/** A caller inside a hold of the read lock asks for the write lock. */
export function upgradeRefused(lockName: string): LockUpgradeError {
  return new LockUpgradeError(
    `lock "${lockName}": the write lock is wanted inside a hold of the read lock, and would wait for that itself: ` +
      'release the read lock first, or take the write lock from the beginning (inside it the read lock can be had, and kept when it goes)',
    { lockName },
  );
}

export function releasedAlready(lockName: string, what: string): LockNotHeldError {
  const message = `lock "${lockName}": cannot ${what} a hold that was released`;
  return new LockNotHeldError(message, { lockName });
}

export function aborted(
  lockName: string,
  when: string,
  signal: AbortSignal | undefined,
): LockAbortedError {
  return new LockAbortedError(`lock "${lockName}" not acquired: the signal aborted, ${when}`, {
    lockName,
    cause: signal?.reason,
  });
}

/** A hint for a wait that ran out while another caller of the same client had the lock: they may wait for each other, or it for itself. */
export function heldByCallerOfClient(isAnonymous: boolean): string {
  const nested = isAnonymous
    ? 'if this call is nested in its hold, it waits for itself: lock.withLock(…) or holdfast.run(…) around both lets it re-enter; '
    : '';
  return `; another caller of this client has it: ${nested}if they take several locks one by one, they may wait for each other, getMultiLock() takes all at once`;
}

/** Why a call waits for itself whose caller holds the lock by `lock()` or `tryLock()`. `onlyReads`: what it holds is a read lock. */
export function callerHolds(holder: string, onlyReads: boolean): string {
  return (
    `the code that waits holds the lock itself (as ${holder}), by a lock() or tryLock() outside any run, and waits for itself ` +
    `unless other code unlocks it. ${reenter(onlyReads)}`
  );
}

/** `onlyReads`: what the client holds is a read lock. */
export function mayBeNestedMessage(lockName: string, holder: string, onlyReads: boolean): string {
  return (
    `lock "${lockName}" has been waited for for 30 s while this client holds it outside any scope (as ${holder}). ` +
    `The waiting call may be nested in the holding one, and wait for itself. If it is: ${reenter(onlyReads)}`
  );
}

function reenter(onlyReads: boolean): string {
  const upgrade = onlyReads
    ? ' if it wants to read; one that wants the write lock gets a LockUpgradeError then'
    : '';
  return `put both into holdfast.run(…), or use lock.withLock(…), so that the inner call can re-enter${upgrade}`;
}

/** The error of a release that failed, of a lock that nobody in this client holds any more: it also says what becomes of the lock. */
export function notReleased(
  error: UnavailableError | QuorumError,
  lockName: string,
  isConnected: boolean,
): UnavailableError | QuorumError {
  const { cause, message } = error;
  const kind = isReply(cause) ? failureKind(cause) : undefined;
  const isRefused = isConnected && (kind === 'denied' || kind === 'defect');
  const what = isRefused ? 'not released' : 'not known to be released';
  const said = message.replace(`lock "${lockName}": `, `lock "${lockName}" ${what}: `);
  const next = isRefused
    ? '. To free it before, remedy that and repeat hold.release() (unlock() cannot be repeated)'
    : '; until then this client goes on trying to release it';
  const text = `${said.replace(/\.$/, '')}. It is renewed no more and ends with its lease${next}`;
  return error instanceof QuorumError
    ? new QuorumError(text, { lockName, cause, nodes: error.nodes })
    : new UnavailableError(text, { lockName, cause });
}

// The error and the event that tell of the loss of a lock.

const WHAT_HAPPENED: Record<LossReason, string> = {
  expired: 'its lease ended before it was released or renewed',
  taken: 'somebody else holds it',
  deleted: 'its key is gone from the server',
  forced: 'it was freed by forceUnlock',
  unreachable: 'Redis did not confirm a renewal before its lease ended',
  closed: 'its client was closed, or its run ended, while it was held',
};

/** What is known of a lock that was lost. */
export interface LostLock {
  readonly lockName: string;
  readonly ownerId: string;
  readonly heldForMs: number;
}

export function lockLost(lost: LostLock, lossReason: LossReason): LockLostError {
  const { lockName, ownerId, heldForMs } = lost;
  return new LockLostError(
    `lock "${lockName}" lost after ${String(Math.round(heldForMs))} ms by ${ownerId}: ${WHAT_HAPPENED[lossReason]}`,
    { lockName, lossReason },
  );
}

/** A grant that was lost. */
interface LostGrant extends Omit<LostLock, 'lockName'> {
  readonly lock: { readonly name: string };
  readonly heldSince: Date;
  readonly token: bigint | undefined;
}

/** The loss of a grant, as its error and the event tell it. */
export function lossOf(
  grant: LostGrant,
  lossReason: LossReason,
): LostEvent & { error: LockLostError } {
  const { lock, ownerId, heldForMs, heldSince, token } = grant;
  const lost = { lockName: lock.name, ownerId, heldForMs };
  const error = lockLost(lost, lossReason);
  return { ...lost, lossReason, ...shownToken(token), heldSince, error };
}
