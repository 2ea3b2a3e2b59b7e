// Begins a hold: enters it where nested calls and `unlock()` look for it, and emits `acquired`.

import { shownToken } from '../api/description.js';
import type { GrantHolder } from './grant-holders.js';
import type { CallersRequest } from './request.js';
import type { Session } from './session.js';
import { SingleHold } from './single-hold.js';

export function beginHold(
  session: Session,
  holder: GrantHolder,
  request: CallersRequest,
): SingleHold {
  const { grant } = holder;
  const hold = new SingleHold(session, holder, request);
  if (!holder.scope) session.anonymous.add(grant.lock.id, hold);
  session.events.emit('acquired', () => ({
    lockName: grant.lock.name,
    ownerId: grant.ownerId,
    holdCount: grant.holdCount,
    leaseMs: request.leaseMs,
    watched: request.isWatched,
    ...shownToken(grant.token),
  }));
  return hold;
}
