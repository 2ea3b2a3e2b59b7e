// Acquires a lock that is mostly free: one command, and nothing that only waiting needs. What the first try does not settle an
// acquisition goes on with: somebody else has the lock, no answer came, the client was closed meanwhile. Whatever takes more than
// one command, or may have to end early, is an acquisition from the beginning.

import type { HoldOrigin } from './own-hold.js';
import type { AcquireRequest } from '../api/options.js';
import { now } from '../runtime/clock.js';
import type { Ending } from '../runtime/wait-limit.js';
import { Holder } from '../scopes/holder.js';
import { actingScope, currentScope, holdersAround, type Scope } from '../scopes/scope.js';
import { Acquisition } from './acquisition.js';
import type { AcquirableLock } from './backend.js';
import { beginHold } from './begin-hold.js';
import { deadlineOf, leftMs } from './deadline.js';
import { Grant } from './grant.js';
import { anonymousLockId, lockCallBegins } from './lock-calls.js';
import type { AcquireReply } from './replies.js';
import { requestOf, type CallersRequest, type MemberTerms } from './request.js';
import type { Session } from './session.js';
import type { SingleHold } from './single-hold.js';
import type { BegunTry } from './tries.js';

/** `newOwnerId` makes each owner that it tries as, where that is not the lock's choice. */
export function acquire(
  session: Session,
  lock: AcquirableLock,
  asked: AcquireRequest & MemberTerms,
  origin: HoldOrigin,
  ownScope?: Scope,
  newOwnerId?: () => string,
): Promise<SingleHold> {
  const watchdogLeaseMs = session.lockWatchdogTimeoutMs;
  const { isShared = false } = lock;
  const request = requestOf(asked, watchdogLeaseMs, origin, isShared, currentScope(), ownScope);
  const begun = newOwnerId ? undefined : tryAtOnce(session, lock, request);
  if (!begun) return new Acquisition(session, lock, request, newOwnerId).hold();

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
        // A defect of ours must not be a caller that waits for ever.
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    };
    reply.then(answered, () => {
      goOn();
    });
  });
}

/** undefined: it takes more than one command, or may, and nothing was sent. */
function tryAtOnce(
  session: Session,
  lock: AcquirableLock,
  { waitMs, leaseMs, signal, origin, position, ownScope }: CallersRequest,
): BegunTry | undefined {
  const isBounded = waitMs !== Infinity || signal !== undefined;
  if (isBounded || session.isClosed || !session.connection.isReady) return undefined;
  // Around there may be what it has to re-enter; and the attempts of one run go one after another.
  const isAlone = !actingScope(position) || ownScope !== undefined;
  if (!isAlone || holdersAround(position, lock.id).length > 0 || !lock.tryAtOnce) return undefined;
  if (lock.isBusyHere) return undefined;

  lockCallBegins(session, lock, origin, leaseMs, position);
  const ownerId = lock.newOwnerId();
  const sentAt = now();
  const reply = lock.tryAtOnce(ownerId, leaseMs, session.untilClosed);
  return reply && { ownerId, sentAt, reply };
}
