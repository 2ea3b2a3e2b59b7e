// The first try of a lock that is mostly free: one command, and nothing that only waiting needs. What it does not settle an
// acquisition goes on with: somebody else has the lock, no answer came, the client was closed meanwhile.

import { Acquisition } from './acquisition.js';
import type { AcquireReply } from './replies.js';
import type { LockBackend } from './backend.js';
import { beginHold } from './begin-hold.js';
import type { Session } from './session.js';
import { now } from '../runtime/clock.js';
import type { HoldOrigin } from '../api/hold.js';
import { Holder } from '../scopes/holder.js';
import { anonymousLockId, lockCallBegins } from './lock-calls.js';
import { Grant } from './grant.js';
import type { LockRequest } from './lock-request.js';
import { actingScope, currentScope, holdersAround, type Scope } from '../scopes/scope.js';
import type { SingleHold } from './single-hold.js';
import { leftMs, deadlineOf } from './deadline.js';
import type { Ending } from '../runtime/wait-limit.js';

/** undefined: it takes more than that, and nothing was sent. */
export function firstTry(
  session: Session,
  lock: LockBackend,
  request: LockRequest,
  origin: HoldOrigin,
  ownScope: Scope | undefined,
): Promise<SingleHold> | undefined {
  const isBounded =
    request.waitMs !== Infinity || request.signal !== undefined || request.seniority !== undefined;
  if (isBounded || session.isClosed || !session.connection.isReady) return undefined;
  const position = currentScope();
  // Around there may be what it has to re-enter; and the attempts of one run go one after another.
  const isAlone = !actingScope(position) || ownScope !== undefined;
  if (!isAlone || holdersAround(position, lock.id).length > 0) return undefined;

  if (!lock.tryAtOnce) return undefined;
  lockCallBegins(session, lock, origin, request.leaseMs, position);
  const leaseMs = request.leaseMs ?? session.lockWatchdogTimeoutMs;
  const ownerId = lock.newOwnerId();
  const sentAt = now();
  const reply = lock.tryAtOnce(ownerId, leaseMs);
  if (!reply) return undefined;

  return new Promise((resolve, reject) => {
    const goOn = (ending?: Ending): void => {
      if (!session.acquisitions.delete(call)) return;
      const begun = { ownerId, sentAt, reply, position };
      const acquisition = new Acquisition(
        session,
        lock,
        request,
        origin,
        ownScope,
        undefined,
        begun,
      );
      resolve(acquisition.hold());
      if (ending) acquisition.end(ending);
    };
    const call = { end: goOn, anonymousLockId: anonymousLockId(origin, lock.id, position) };
    session.acquisitions.add(call);
    const answered = ({ outcome }: AcquireReply): void => {
      const lease = deadlineOf(sentAt, leaseMs);
      if (outcome !== 'acquired' || leftMs(lease) <= 0) {
        goOn();
        return;
      }
      if (!session.acquisitions.delete(call)) return;
      try {
        const grant = new Grant(session, lock, ownerId, lease);
        resolve(beginHold(session, new Holder(grant, undefined, ownScope), origin, request));
      } catch (error) {
        if (error instanceof Error) reject(error); // a defect of ours must not be a caller that waits for ever
      }
    };
    reply.then(answered, () => {
      goOn();
    });
  });
}
