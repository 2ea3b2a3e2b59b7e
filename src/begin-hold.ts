// A hold begins: it is entered where it will be looked for, and told.

import type { Client } from './client.js';
import type { HoldOrigin } from './hold.js';
import type { Holder } from './holder.js';
import type { AcquireRequest } from './options.js';
import { SingleHold } from './single-hold.js';

export function beginHold(
  client: Client,
  holder: Holder,
  origin: HoldOrigin,
  request: AcquireRequest,
): SingleHold {
  const { ownership } = holder;
  const watched = request.leaseMs === undefined;
  const hold = new SingleHold(client, holder, origin, watched);
  if (!holder.scope) client.anonymous.add(ownership.lock.id, hold);
  client.events.tell('acquired', () => ({
    lockName: ownership.lock.name,
    ownerId: ownership.ownerId,
    holdCount: ownership.holdCount,
    leaseMs: request.leaseMs ?? client.lockWatchdogTimeoutMs,
    watched,
  }));
  return hold;
}
