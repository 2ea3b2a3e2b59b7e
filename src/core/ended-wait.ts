// What an acquisition is told whose wait is over. "Somebody else has it" rests on an answer that is young, or on a grant of
// this very client; otherwise it is not known who has it.

import type { AcquirableLock } from './backend.js';
import type { Session } from './session.js';
import type { SeenHolder } from '../api/errors.js';
import type { LockRequest } from './request.js';
import { aborted, heldElsewhere, timedOut } from './refusals.js';
import type { Findings } from '../waiting/findings.js';
import { LATE_MS, type WaitLimit, type WaitEnded } from '../runtime/wait-limit.js';
import { Undecided } from './undecided.js';

/** How old what is told may be: a second, when the wait ends as late as it may. */
const OLDEST_ANSWER_MS = 1_000 - LATE_MS;

/** An acquisition as far as its end has to be explained. */
export interface Waited {
  readonly session: Session;
  readonly lock: AcquirableLock;
  readonly request: LockRequest;
  readonly waitLimit: WaitLimit;
  readonly findings: Findings | undefined;
}

/** Since when must have been asked, on the monotonic clock, what is told when the time is over. */
export function youngSinceMs({ endsAtMs }: WaitLimit): number {
  return endsAtMs - OLDEST_ANSWER_MS;
}

/** Whether the last answer will still be young when the time is over. */
export function isKnown(waitLimit: WaitLimit, findings: Findings | undefined): boolean {
  return findings !== undefined && findings.askedAtMs >= youngSinceMs(waitLimit);
}

/** What bounds it: a single attempt is bounded as any command is. In milliseconds. */
export function limitMs(session: Session, { waitMs, attemptMs = Infinity }: LockRequest): number {
  return waitMs === 0 ? Math.min(session.commandTimeoutMs, attemptMs) : waitMs;
}

/** What ended the wait, in the words of the caller. */
export function endedWait(over: WaitEnded, waited: Waited): Error {
  const { session, lock, request, findings } = waited;
  if (over.ending === 'aborted') return aborted(lock.name, 'while waiting', request.signal);
  if (over.ending === 'closed') return session.closedError(lock.name);
  const trouble = over.trouble ?? findings?.trouble;
  const seen = seenLately(waited, trouble) ?? heldHere(waited);
  if (seen && lock.isReentrant === false) return heldElsewhere(lock.name, request.waitMs, seen);
  if (seen) return timedOut(lock.name, request.waitMs, seen, session.clientId);
  return session.unanswered(
    lock.name,
    'not acquired',
    Math.round(limitMs(session, request)),
    trouble,
  );
}

/** Who had it, if that was said lately and could still be asked. */
function seenLately(
  { session, lock, waitLimit, findings }: Waited,
  trouble: Error | undefined,
): SeenHolder | undefined {
  const isReachable = lock.isReachable ?? session.connection.isReady;
  if (!isReachable || trouble instanceof Undecided) return undefined;
  return isKnown(waitLimit, findings) ? findings?.holder : undefined;
}

/** What this client itself holds of the lock, if that keeps others out: it is what somebody waits for who reads, too. */
function heldHere({ session, lock }: Waited): SeenHolder | undefined {
  const found = session.grantOf(lock.id);
  const grant = found?.isShared && lock.isShared ? undefined : found;
  return grant?.seen;
}
