// The fast path of an acquire: the lock is mostly free, so the first try is one command, and nothing is set up for waiting. If that
// does not settle the call (somebody else has the lock, no answer came, the client was closed meanwhile), an acquisition goes on with
// it. A call that may take more than one command, or may have to end early, is an acquisition from the beginning.

import type { HoldOrigin } from './own-hold.js';
import type { AcquireRequest } from '../api/options.js';
import { now } from '../runtime/clock.js';
import { rejecting } from '../runtime/loop-turns.js';
import type { Ending } from '../runtime/wait-limit.js';
import { Holder } from '../scopes/holder.js';
import { actingScope, currentScope, holdersAround, type Scope } from '../scopes/scope.js';
import { Acquisition } from './acquisition.js';
import type { AcquirableLock } from './backend.js';
import { beginHold } from './begin-hold.js';
import { deadlineOf, leftMs } from './deadline.js';
import { Grant } from './grant.js';
import { anonymousLockId, lockCallBegins } from './lock-calls.js';
import { selfWaitOf } from './nested-calls.js';
import type { AcquireReply } from './replies.js';
import { requestOf, type CallersRequest, type MemberTerms, type SelfWait } from './request.js';
import type { Session } from './session.js';
import type { SingleHold } from './single-hold.js';
import type { BegunTry } from './tries.js';

/**
 * @param newOwnerId - makes the owner of each try, in place of the lock's own `newOwnerId`
 * @param selfWait - by what the caller would wait for itself, if it is not a `lock()` or `tryLock()` of its own
 */
export function acquire(
  session: Session,
  lock: AcquirableLock,
  asked: AcquireRequest & MemberTerms,
  origin: HoldOrigin,
  ownScope?: Scope,
  newOwnerId?: () => string,
  selfWait: SelfWait | undefined = selfWaitOf(session.anonymous, lock),
): Promise<SingleHold> {
  const watchdogLeaseMs = session.lockWatchdogTimeoutMs;
  const { isShared = false } = lock;
  const request = requestOf(
    asked,
    watchdogLeaseMs,
    origin,
    isShared,
    currentScope(),
    ownScope,
    selfWait,
  );
  const begun = newOwnerId ? undefined : tryAtOnce(session, lock, request);
  if (!begun) return rejecting(() => new Acquisition(session, lock, request, newOwnerId).hold());

  const { ownerId, sentAt, reply } = begun;
  return new Promise((resolve, reject) => {
    const goOn = (ending?: Ending): void => {
      if (!session.acquisitions.delete(call)) return;
      const acquisition = new Acquisition(session, lock, request, undefined, begun);
      resolve(acquisition.hold());
      if (ending) acquisition.end(ending);
    };
    const lockId = anonymousLockId(origin, lock.id, request.position);
    const call = { end: goOn, anonymousLockId: lockId };
    session.acquisitions.add(call);
    // A listener that was told of a loss or a warning on the way here may have closed the client.
    if (session.isClosed) goOn('closed');
    const answered = (answer: AcquireReply): void => {
      const deadline = deadlineOf(sentAt, request.leaseMs);
      if (answer.outcome !== 'acquired' || leftMs(deadline) <= 0) {
        goOn();
        return;
      }
      if (!session.acquisitions.delete(call)) return;
      try {
        const grant = new Grant(session, lock, ownerId, deadline, answer.token);
        resolve(beginHold(session, new Holder(grant, undefined, ownScope, isShared), request));
      } catch (error) {
        // Only a bug can throw here; the caller must get the error all the same, and not wait for ever.
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    };
    reply.then(answered, () => {
      goOn();
    });
  });
}

/** Sends the first try. undefined: nothing was sent, since the call has to be an acquisition from the beginning. */
function tryAtOnce(
  session: Session,
  lock: AcquirableLock,
  { waitMs, leaseMs, signal, origin, position, ownScope }: CallersRequest,
): BegunTry | undefined {
  const isBounded = waitMs !== Infinity || signal !== undefined;
  if (isBounded || session.isClosed || !session.connection.isReady) return undefined;
  // A scope around the call may hold the lock, and is re-entered then; and the attempts of one run go one after another.
  const isAlone = !actingScope(position) || ownScope !== undefined;
  if (!isAlone || holdersAround(position, lock.id).length > 0 || !lock.tryAtOnce) return undefined;
  if (lock.isBusyHere) return undefined;

  lockCallBegins(session, lock, origin, leaseMs, position);
  const ownerId = lock.newOwnerId();
  const sentAt = now(session.clock);
  const reply = lock.tryAtOnce(ownerId, leaseMs, session.untilClosed);
  return reply && { ownerId, sentAt, reply };
}
