// The texts of the errors: a lock held by another owner, a Redis that does not answer or refuses, a mistake of the caller, a loss.

import {
  ClosedError,
  type HoldfastError,
  KeyConflictError,
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
import { describe, failureKind, isPermissionMissing, isReply } from '../redis/failure.js';
import type { AcquirableLock, KeyInTheWay } from './protocol.js';
import type { Wait, WaitIs } from '../api/options.js';
import { shownToken } from '../api/description.js';
import type { LostEvent } from '../api/events.js';
import type { Instant } from '../runtime/clock.js';
import { howHeld } from '../api/inspection.js';

/** If an attempt is at most this old (in milliseconds) when the wait ends, its missing answer counts as slow, not as an outage. */
export const SLOW_ANSWER_MS = 100;

/** The lock that a caller wanted, and how many permits if it has permits. */
type Wanted = Pick<AcquirableLock, 'name' | 'weight' | 'isReentrant'>;

/** Another owner, or the caller itself, had the lock until the wait ran out. `hint`: what may help. */
export function heldElsewhere(
  lock: Wanted,
  wait: Wait,
  { isAskedFor, ...seen }: SeenHolder & { readonly isAskedFor?: boolean | undefined },
  hint = '',
): LockTimeoutError {
  const { name: lockName } = lock;
  const message = `${wanted(lock)} not acquired ${within(wait)}: ${inTheWay(lock, seen)}${hint}`;
  const error = new LockTimeoutError(message, { lockName, ...seen });
  if (isAskedFor) askedFor.add(error);
  return error;
}

/** The errors of calls that found a lock kept, and asked its client to let go. */
const askedFor = new WeakSet<LockTimeoutError>();

/** Whether the lock was kept, so that it may be free in a moment. */
export function mayComeFree(error: unknown): boolean {
  return error instanceof LockTimeoutError && askedFor.has(error);
}

function wanted({ name, weight, isReentrant }: Wanted): string {
  if (isReentrant !== false || weight === undefined) return `lock "${name}"`;
  return `semaphore "${name}": ${String(weight)} permit${weight === 1 ? '' : 's'}`;
}

/** Names the known owner: the holder; with several holders one of them, or the first in line; for a free fair lock the first in line. */
function inTheWay(
  { weight }: Wanted,
  { holder, holderTtlMs, holderState = 'held' }: SeenHolder,
): string {
  if (holderState === 'released' && holderTtlMs > 0)
    return `${howHeld(holderState, `its lease ends in ${String(holderTtlMs)} ms`)} ${holder}`;
  if (weight !== undefined && holderState === 'held')
    return `${holder} is in the way, perhaps among others`;
  if (holderTtlMs < 0) return `held by ${holder}, without expiry`;
  if (holderTtlMs === 0) return `${holder} has it, or is the next to get it`;
  const renewed = holderState === 'exported' ? '' : ' unless renewed';
  return `${howHeld(holderState)} ${holder}, its lease ends in ${String(holderTtlMs)} ms${renewed}`;
}

/** `heldElsewhere` for a MultiLock of which another owner held a member. */
export function memberHeldElsewhere(
  lockName: string,
  wait: Wait,
  cause: LockTimeoutError,
  hint: string,
): LockTimeoutError {
  const { lockName: member = '', holder = 'somebody', holderTtlMs = -1 } = cause;
  return new LockTimeoutError(
    `lock "${lockName}" not acquired ${within(wait)}: its member "${member}" is held by ${holder}${hint}`,
    { lockName, holder, holderTtlMs, cause },
  );
}

/** How long a call had. A default is named, so that the reader finds its option; and the doubt if a short one was meant so. */
function within({ waitMs, waitIs }: Wait): string {
  return `within ${rounded(waitMs)} ms${waitMs === 0 ? '' : WAIT_NOTES[waitIs]}`;
}

/** The error of masters that could not decide until the wait ran out names the wait, too. */
export function ranOut(error: HoldfastError, wait: Wait): HoldfastError {
  if (!(error instanceof QuorumError)) return error;
  const { lockName, nodes, message } = error;
  const text = message.replace(' not acquired: ', ` not acquired ${within(wait)}: `);
  return new QuorumError(text, { lockName, nodes });
}

const WAIT_NOTES: Readonly<Record<WaitIs, string>> = {
  given: '',
  default: ' (the default; option "wait" sets another)',
  short: ' (that is milliseconds: were seconds meant?)',
};

/** Redis gave no usable answer in time. The caller's own wait is to blame if it was shorter than an answer may take. */
export function noAnswer(isRefused: boolean, limitMs: number, waitIs: WaitIs): string {
  const limit = `${rounded(limitMs)} ms`;
  const note = WAIT_NOTES[waitIs];
  if (isRefused) return `Redis refused for ${limit}${note}`;
  return waitIs === 'short'
    ? `the wait of ${limit} was over before Redis answered${note}`
    : `Redis did not answer within ${limit}${note}`;
}

/** Rounded: the rest of a wait may have decimals. */
function rounded(ms: number): string {
  return String(Math.round(ms));
}

/** The caller takes a fenced lock inside a hold of the same name that has no token to share. */
export function heldWithoutToken(lockName: string): OptionError {
  return new OptionError(
    `lock "${lockName}" is held around this call without a token: it must be taken by getFencedLock() there, too`,
    { lockName },
  );
}

/** A caller inside a hold of the read lock asks for the write lock. */
export function upgradeRefused(lockName: string): LockUpgradeError {
  return new LockUpgradeError(
    `lock "${lockName}": the write lock is wanted inside a hold of the read lock, and would wait for that hold: ` +
      'release the read lock first, or take the write lock from the beginning (inside it you can take the read lock, and keep that when you release the write lock)',
    { lockName },
  );
}

export function releasedAlready(
  lockName: string,
  what: string,
  how: 'released' | 'exported' = 'released',
): LockNotHeldError {
  const message = `lock "${lockName}": cannot ${what} a hold that was ${how}`;
  return new LockNotHeldError(message, { lockName });
}

/** `call`: what ran the function under the lock; `result`: what the function resolved to, in words. */
export function resolvedToLateWork(
  lockName: string,
  label: string | undefined,
  call: string,
  result: string,
): OptionError {
  const purpose = label === undefined ? '' : ` (${label})`;
  return new OptionError(
    `lock "${lockName}"${purpose}: the function given to ${call} resolved to ${result}, whose work would begin after the release: let the function do that work and await it (for await, pipeline(), lastValueFrom()), or acquire() and release() around all of it`,
    { lockName },
  );
}

export function usedLateMessage(lockName: string): string {
  return `lock "${lockName}": a hold was used when the function that got it had ended, and with it the hold: await (or return) in that function all work that uses it, and call hold.assertHeld() right before each decisive step, which throws then`;
}

/** A hold that only its own client can use. `why`: in words that end the sentence. */
export function notExportable(lockName: string, why: string): OptionError {
  return new OptionError(`lock "${lockName}": the hold cannot be exported: ${why}`, { lockName });
}

/** `seen`: the owner that was last seen to have the lock. */
export function aborted(
  lock: Wanted,
  when: string,
  signal: AbortSignal | undefined,
  seen?: SeenHolder,
): LockAbortedError {
  const { name: lockName } = lock;
  const last = seen ? `; last seen: ${inTheWay(lock, seen)}` : '';
  const message = `${wanted(lock)} not acquired: the signal aborted, ${when}${last}`;
  const { holder, holderTtlMs } = seen ?? {};
  return new LockAbortedError(message, { lockName, cause: signal?.reason, holder, holderTtlMs });
}

/** A hint if another caller of the same client had the lock when the wait ran out: they may wait for each other, or the call for itself. */
export function heldByCallerOfClient(isAnonymous: boolean): string {
  const nested = isAnonymous
    ? 'if this call is nested in its hold, it waits for itself: lock.withLock(…) or holdfast.run(…) around both lets it re-enter; '
    : '';
  return `; another caller of this client has it: ${nested}if they take several locks one by one, they may wait for each other, getMultiLock() takes all at once`;
}

const ONE_CLIENT =
  'use one Holdfast for both, since a call re-enters only what its own client holds';

/** The same hint if another client of this process had the lock. Permits are never re-entered, so one client for both would not help. */
export function heldByNeighbour(isReentrant: boolean): string {
  const right = isReentrant ? ONE_CLIENT : 'it waits for itself';
  return `; another Holdfast of this process has it: if this call is nested in that hold, ${right}`;
}

/** Why a call waits for itself: it is made inside a hold of another client of this process. */
export function neighbourHolds(holder: string): string {
  return `another Holdfast of this process holds it around the call that waits (as ${holder}), which waits for itself; ${ONE_CLIENT}`;
}

/** Why a call waits for itself: its caller holds the lock by `lock()` or `tryLock()`. `onlyReads`: it holds the read lock. */
export function callerHolds(holder: string, onlyReads: boolean): string {
  return (
    `the code that waits holds the lock itself (as ${holder}), by a lock() or tryLock() outside any run, and waits for itself ` +
    `unless other code unlocks it: ${reenter(onlyReads)}`
  );
}

/** `onlyReads`: the client holds the read lock. `isOurs`: it is the client that waits, and not another one of this process. */
export function mayBeNestedMessage(
  lockName: string,
  holder: string,
  onlyReads: boolean,
  isOurs: boolean,
): string {
  const whose = isOurs ? 'this client' : 'another Holdfast of this process';
  return (
    `lock "${lockName}" has been waited for for 30 s while ${whose} holds it outside any scope (as ${holder}). ` +
    `The waiting call may be nested in the holding one, and wait for itself. If it is: ${isOurs ? reenter(onlyReads) : ONE_CLIENT}`
  );
}

function reenter(onlyReads: boolean): string {
  const upgrade = onlyReads
    ? ' if it wants to read; one that wants the write lock gets a LockUpgradeError then'
    : '';
  return `put both into holdfast.run(…), or use lock.withLock(…), so that the inner call can re-enter${upgrade}`;
}

/** The error of a failed release of a lock that this client no longer holds: it also says what happens to the lock. */
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
    ? '. To free it earlier, remedy that and call hold.release() again, or unlock() in the code that called lock() outside a run'
    : '; until then the client keeps trying to release it';
  const text = `${said.replace(/\.$/, '')}. The client no longer renews it, so it ends with its lease${next}`;
  return error instanceof QuorumError
    ? new QuorumError(text, { lockName, cause, nodes: error.nodes })
    : new UnavailableError(text, { lockName, cause });
}

// Redis did not execute a command.

/** Redis could not be asked about a lock: says what is not known, and the latest error. */
export function redisUnavailable(
  lockName: string | undefined,
  what: string,
  lastError?: Error,
): UnavailableError {
  const message = `${lockOrList(lockName)} ${what}${lastErrorIn(lastError)}`;
  return new UnavailableError(message, { lockName, ...(lastError && { cause: lastError }) });
}

/** A server answered with an error that a repeat does not change. */
export function refused(lockName: string | undefined, cause: unknown): HoldfastError {
  const which = lockOrList(lockName);
  if (cause instanceof ClosedError)
    return new ClosedError(`${which}: ${cause.message}`, { lockName });
  return new UnavailableError(`${which}: ${inWords(cause)}`, { lockName, cause });
}

/** undefined: the question was for all locks. */
function lockOrList(lockName: string | undefined): string {
  return lockName === undefined ? 'the list of locks' : `lock "${lockName}"`;
}

/** A `ping()` of a server, or of a cluster's nodes, failed. `limitMs`: the time limit, if that ended it. */
export function notAnswered(
  where: string,
  limitMs: number | undefined,
  cause: Error | undefined,
): UnavailableError {
  const limit = limitMs === undefined ? '' : ` within ${String(limitMs)} ms`;
  const message = `Redis (${where}) did not answer${limit}${lastErrorIn(cause)}`;
  return new UnavailableError(message, cause && { cause });
}

/** Renewals were not answered, and will be tried again. */
export function renewalFailed(cause: unknown, leaseCount: number): UnavailableError {
  const leases = leaseCount === 1 ? 'lease' : 'leases';
  const message = `renewal of ${String(leaseCount)} ${leases} was not answered, and will be tried again: ${inWords(cause)}`;
  return new UnavailableError(message, { cause });
}

/** A script did its work, but may not publish that. `kind`: how the names of these channels begin. */
export function publishRefused(
  channel: string,
  kind: string,
  reason: string,
  lookEveryMs: number,
): UnavailableError {
  return new UnavailableError(
    `cannot publish on channel ${channel}: ${reason}; waiters are not woken there, and only poll every ${String(Math.ceil(lookEveryMs))} ms; ` +
      `permit PUBLISH (in a cluster SPUBLISH) on ${kind}:*`,
  );
}

export function wishRefused(reason: string): UnavailableError {
  return new UnavailableError(
    `cannot ask for locks that other clients keep: ${reason}; callers wait until such a lock is released; permit PUBLISH on holdfast_wishes:*`,
  );
}

function inWords(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const words = describe(cause);
  return isPermissionMissing(cause) ? `${words.replace(/\.$/, '')}; ${ACL_HELP}` : words;
}

const ACL_HELP = 'npx holdfast acl prints the permissions that a user of holdfast needs';

function lastErrorIn(cause: Error | undefined): string {
  return cause ? ` (last error: ${inWords(cause)})` : '';
}

/** A command met a key of another kind. */
export function keyConflict(
  lockName: string,
  found: KeyInTheWay | undefined,
  cause: unknown,
): KeyConflictError {
  const remedy = 'choose another name or keyPrefix';
  if (!found) {
    const message = `lock "${lockName}": its key, or one beside it, holds something that is not a lock; ${remedy}`;
    return new KeyConflictError(message, { lockName, cause });
  }
  const { key, type, node, expected, what = TYPES[type] ?? `of type ${type}` } = found;
  const where = node === undefined ? '' : ` on ${node}`;
  const message = `lock "${lockName}": the key "${key}"${where} is in the way: it is ${what}, and not ${expected}; ${remedy}`;
  return new KeyConflictError(message, { lockName, cause, key, keyType: type });
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'a string',
  list: 'a list',
  set: 'a set',
  zset: 'a sorted set',
  hash: 'a hash',
  stream: 'a stream',
};

// Probable mistakes of the caller.

/** Why an `unlock()` has nothing to undo; if there are several reasons, the first of them is reported. */
export const UNLOCK_MISTAKES = [
  'failed',
  'pending',
  'held around',
  'undone',
  'forgotten',
  'acquired',
  'none in this run',
  'none outside a run',
] as const;

/** What to write where an `unlock()` is refused that would have been right. */
const INSTEAD =
  '. If other calls of this code got the lock, it stays held until its client closes: use tryLock(wait) instead of several tries, a hold of acquire(), withLock(), ' +
  'a holdfast.run() for each task, or holdfast.detach() around a try that may fail';

/** `isShared`: which half of a read-write lock it is; undefined: another kind of lock. `isInRun`: whether the caller is inside a run. */
export function unlockRefused(
  lockName: string,
  isShared: boolean | undefined,
  mistake: (typeof UNLOCK_MISTAKES)[number],
  isInRun: boolean,
): LockNotHeldError {
  const half = isShared === undefined ? '' : ` of the ${isShared ? 'read' : 'write'} lock`;
  const why: Record<typeof mistake, string> = {
    failed: `the lock() or tryLock()${half} of this code did not get it; call unlock() only where tryLock() returned true${INSTEAD}`,
    pending: `its lock() or tryLock() is still under way, since it was not awaited${isInRun ? '' : INSTEAD}`,
    'held around':
      'it is held around this call by acquire(), which hold.release() undoes, or by withLock() or an outer run, which release it; unlock() undoes only lock() and tryLock()',
    acquired: `this client holds it by acquire(): call hold.release() of the hold that acquire() returned; unlock() undoes only lock() and tryLock()`,
    undone: `the lock() or tryLock()${half} of this code was unlocked already${INSTEAD}`,
    forgotten: `this code has called lock() or tryLock() for so many locks outside a run that its oldest calls are forgotten${INSTEAD}`,
    'none in this run': `this run has no lock() or tryLock()${half} to undo`,
    'none outside a run': `no lock() or tryLock()${half} outside a run is left to undo`,
  };
  return new LockNotHeldError(`lock "${lockName}" cannot be unlocked: ${why[mistake]}`, {
    lockName,
  });
}

/** The warning about a call that waits for itself. */
export function selfWaitMessage(name: string, isLock: boolean, why: string): string {
  return `${isLock ? 'lock' : 'semaphore'} "${name}" has been waited for for 5 s: ${why}`;
}

/** `what`: the name of the time, in words. */
export function shortTimeMessage(
  { name, isReentrant }: Pick<Wanted, 'name' | 'isReentrant'>,
  what: string,
  ms: number,
): string {
  const subject = `${isReentrant === false ? 'semaphore' : 'lock'} "${name}"`;
  return `${subject}: ${what} is ${String(ms)} milliseconds, which is very short: if seconds were meant, give ${String(ms * 1_000)}`;
}

export function overlapMessage(name: string): string {
  return (
    `lock "${name}": two lock() or tryLock() calls of one run overlap; the run is one owner, so that both enter. ` +
    'For branches that shall take turns use lock.withLock(…), or a holdfast.run(…) for each'
  );
}

// The error and the event about the loss of a lock.

const WHAT_HAPPENED: Record<LossReason, string> = {
  expired: 'its lease ended before it was released or renewed',
  taken: 'another owner holds it',
  deleted: 'its key is gone from the server',
  forced: 'it was freed by forceUnlock',
  unreachable: 'Redis did not confirm a renewal before its lease ended',
  closed: 'its client was closed, or its run ended, while it was held',
};

/** What is known about a lost lock. */
export interface LostLock {
  readonly lockName: string;
  readonly ownerId: string;
  readonly heldForMs: number;
  readonly provenAt: Date;
}

export function lockLost(lost: LostLock, lossReason: LossReason): LockLostError {
  const { lockName, ownerId, heldForMs, provenAt } = lost;
  return new LockLostError(
    `lock "${lockName}" lost after ${String(Math.round(heldForMs))} ms by ${ownerId}: ${WHAT_HAPPENED[lossReason]}`,
    { lockName, lossReason, provenAt },
  );
}

/** A lost grant. */
interface LostGrant extends Omit<LostLock, 'lockName' | 'provenAt'> {
  readonly confirmedAt: Instant;
  readonly lock: { readonly name: string };
  readonly heldSince: Date;
  readonly token: bigint | undefined;
}

/** The loss of a grant, for the error and the event. */
export function lossOf(grant: LostGrant, lossReason: LossReason, holdIds: string[]): LostEvent {
  const { lock, ownerId, heldSince, token, confirmedAt } = grant;
  const heldForMs = Math.round(grant.heldForMs);
  const provenAt = new Date(confirmedAt.wallMs);
  const lost = { lockName: lock.name, ownerId, heldForMs, provenAt };
  const error = lockLost(lost, lossReason);
  return { ...lost, holdIds, lossReason, ...shownToken(token), heldSince, error };
}
