// A hold begins: it is entered where it will be looked for, and told.

import type { Session } from './session.js';
import type { HoldOrigin } from '../api/hold.js';
import type { GrantHolder } from './grant-holders.js';
import type { AcquireRequest } from '../api/options.js';
import { SingleHold } from './single-hold.js';

export function beginHold(
  session: Session,
  holder: GrantHolder,
  origin: HoldOrigin,
  request: AcquireRequest,
): SingleHold {
  const { grant } = holder;
  const watched = request.leaseMs === undefined;
  const hold = new SingleHold(session, holder, origin, watched);
  if (!holder.scope) session.anonymous.add(grant.lock.id, hold);
  session.events.emit('acquired', () => ({
    lockName: grant.lock.name,
    ownerId: grant.ownerId,
    holdCount: grant.holdCount,
    leaseMs: request.leaseMs ?? session.lockWatchdogTimeoutMs,
    watched,
  }));
  return hold;
}
