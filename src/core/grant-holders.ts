// The holders that an acquisition may re-enter. Scopes know holders of anything that is `Held`; all that there are have a `Grant`,
// since the core makes them.

import type { Holder } from '../scopes/holder.js';
import { holdersAround, nearestHolder, type Scope } from '../scopes/scope.js';
import type { AcquirableLock } from './backend.js';
import { Grant } from './grant.js';
import { heldWithoutToken, upgradeRefused } from './refusals.js';
import type { CallersRequest } from './request.js';

export type GrantHolder = Holder<Grant>;

/**
 * The holder that an acquisition in `position` re-enters: `own` is one of the acting scope, whose hold count goes up; `outer` is
 * another one around the caller, whose child the acquisition becomes.
 */
export function holderToReenter(
  position: Scope | undefined,
  acting: Scope | undefined,
  lockId: string,
): { readonly own?: GrantHolder | undefined; readonly outer?: GrantHolder | undefined } {
  const own = acting?.holders(lockId) ?? [];
  const around = own.length > 0 ? holdersAround(position, lockId) : [];
  const last = around.findLast((holder) => own.includes(holder));
  return last ? { own: ofGrant(last) } : { outer: ofGrant(nearestHolder(position, lockId)) };
}

/** Throws if the request cannot re-enter this holder: it was lost, or it is shared or has no token, but the request needs more. */
export function assertEnterable(
  { grant, isShared }: GrantHolder,
  lock: AcquirableLock,
  request: CallersRequest,
): void {
  if (grant.loss) throw grant.loss;
  if (isShared && !request.isShared) throw upgradeRefused(lock.name);
  if (lock.isFenced && grant.token === undefined) throw heldWithoutToken(lock.name);
}

function ofGrant(holder: Holder | undefined): GrantHolder | undefined {
  return holder && isOfGrant(holder) ? holder : undefined;
}

function isOfGrant(holder: Holder): holder is GrantHolder {
  return holder.grant instanceof Grant;
}
