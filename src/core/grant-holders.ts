// Who of this process holds a lock by which grant. Scopes take holders of anything that is held; all of them are made here in
// the core, each of a grant.

import type { Holder } from '../scopes/holder.js';
import { holdersAround, nearestHolder, type Scope } from '../scopes/scope.js';
import type { AcquirableLock } from './backend.js';
import { Grant } from './grant.js';
import { heldWithoutToken, upgradeRefused } from './refusals.js';
import type { CallersRequest } from './request.js';

export type GrantHolder = Holder<Grant>;

/** The holder that an acquisition in `position` re-enters. `own`: it is of the acting scope, so that the acquisition counts up. */
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

/** Whether what is asked can be had inside this holder: throws if it was lost, or gives less than is wanted. */
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
