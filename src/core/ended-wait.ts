// The error of an acquisition whose wait is over. It says that somebody else has the lock only if an answer that is young says so, or
// a grant of this very client; otherwise it says that Redis did not answer, or that its answers came later than the lease allows.

import type { AcquirableLock } from './backend.js';
import type { Session } from './session.js';
import type { SeenHolder } from '../api/errors.js';
import type { LockRequest, SelfWait } from './request.js';
import { aborted, heldByCallerOfClient, heldElsewhere } from './refusals.js';
import { UnwantedError } from '../redis/failure.js';
import type { Findings } from '../waiting/findings.js';
import { LATE_MS, type WaitLimit, type WaitEnded } from '../runtime/wait-limit.js';
import { Undecided } from './undecided.js';

/** How old the last answer may be when the wait should end: so it is at most a second old when the wait ends as late as it may. */
const OLDEST_ANSWER_MS = 1_000 - LATE_MS;

/** What the error needs to know of the acquisition. */
export interface Waited {
  readonly session: Session;
  readonly lock: AcquirableLock;
  readonly request: LockRequest & { readonly selfWait?: SelfWait | undefined };
  readonly waitLimit: WaitLimit;
  readonly findings: Findings | undefined;
  /** Whether the latest answer granted the lock, and took longer than the lease. */
  readonly isTooLate: boolean;
  /** Whether what stayed unanswered was to re-enter a grant: the holder whose grant it is was in nobody's way. */
  readonly isReentering: boolean;
}

/** The earliest time (monotonic) at which the server may have been asked, for its answer still to count when the wait ends. */
export function youngSinceMs({ endsAtMs }: WaitLimit): number {
  return endsAtMs - OLDEST_ANSWER_MS;
}

/** Whether the last answer will still be young when the time is over. */
export function isKnown(waitLimit: WaitLimit, findings: Findings | undefined): boolean {
  return findings !== undefined && findings.askedAtMs >= youngSinceMs(waitLimit);
}

/** How long the acquisition may take, in milliseconds: its wait, or for a single attempt `commandTimeout`, as for any command. */
export function limitMs(session: Session, { waitMs, attemptMs = Infinity }: LockRequest): number {
  return waitMs === 0 ? Math.min(session.commandTimeoutMs, attemptMs) : waitMs;
}

/** Whether that is a limit of the caller's, which may be too short for any answer, and not `commandTimeout`. */
export function isCallersLimit(
  session: Session,
  { waitMs, attemptMs = Infinity }: LockRequest,
): boolean {
  return waitMs > 0 || (attemptMs > 0 && attemptMs < session.commandTimeoutMs);
}

/** The error that tells the caller what ended the wait. */
export function endedWait(over: WaitEnded, waited: Waited): Error {
  const { session, lock, request, findings } = waited;
  if (over.ending === 'aborted') return aborted(lock.name, 'while waiting', request.signal);
  if (over.ending === 'closed') return session.closedError(lock.name);
  const trouble = over.trouble ?? findings?.trouble;
  const seen = waited.isReentering ? undefined : (seenLately(waited, trouble) ?? heldHere(waited));
  if (seen) return heldElsewhere(lock, request.waitMs, seen, hintOf(waited, seen));
  // A try that was not sent any more, in the last instant of the wait, is no trouble.
  const isTrouble = trouble && !(trouble instanceof UnwantedError);
  if (waited.isTooLate && !isTrouble && isReachable(waited))
    return session.tooLate(lock.name, request.leaseMs);
  const hadMs = Math.max(limitMs(session, request), waited.waitLimit.isOverdue ? LATE_MS : 0);
  return session.unanswered(lock.name, 'not acquired', Math.round(hadMs), trouble);
}

/** Who had the lock, if the answer that said so is young, and the server can still be asked. */
function seenLately(waited: Waited, trouble: Error | undefined): SeenHolder | undefined {
  if (!isReachable(waited) || trouble instanceof Undecided) return undefined;
  const { waitLimit, findings } = waited;
  return isKnown(waitLimit, findings) ? findings?.holder : undefined;
}

function isReachable({ session, lock }: Waited): boolean {
  return lock.isReachable ?? session.connection.isReady;
}

/** What may help a caller whose wait ran out because of this very client. */
function hintOf(waited: Waited, seen: SeenHolder): string {
  const nested = waited.request.selfWait?.();
  if (nested) return `; ${nested.why}`;
  if (!isHeldHere(waited, seen)) return '';
  const { session, lock } = waited;
  return heldByCallerOfClient(session.anonymous.held(lock.id) !== undefined);
}

/** Whether that holder is this very client, and not another one that was given the same id. */
function isHeldHere(waited: Waited, { holder }: SeenHolder): boolean {
  const mayBe = holder.startsWith(`${waited.session.clientId}:`);
  return mayBe && heldHere(waited)?.holder === holder;
}

/** This client's own grant of the lock; but none that is shared if the caller asked for a shared one: that was not in its way. */
function heldHere({ session, lock }: Waited): SeenHolder | undefined {
  const found = session.grantOf(lock.id);
  const grant = found?.isShared && lock.isShared ? undefined : found;
  return grant?.seen;
}
