// The error and the event that tell of the loss of a lock.

import { shownToken } from '../api/description.js';
import { LockLostError, type LossReason } from '../api/errors.js';
import type { LostEvent } from '../api/events.js';

const WHAT_HAPPENED: Record<LossReason, string> = {
  expired: 'its lease ended before it was released or renewed',
  taken: 'somebody else holds it',
  deleted: 'its key is gone from the server',
  forced: 'it was freed by forceUnlock',
  unreachable: 'Redis did not confirm a renewal before its lease ended',
  closed: 'its client was closed, or its run ended, while it was held',
};

/** What is known of a lock that was lost. */
export interface LostLock {
  readonly lockName: string;
  readonly ownerId: string;
  readonly heldForMs: number;
}

export function lockLost(lost: LostLock, lossReason: LossReason): LockLostError {
  const { lockName, ownerId, heldForMs } = lost;
  return new LockLostError(
    `lock "${lockName}" lost after ${String(Math.round(heldForMs))} ms by ${ownerId}: ${WHAT_HAPPENED[lossReason]}`,
    { lockName, lossReason },
  );
}

/** A grant that was lost. */
interface LostGrant extends Omit<LostLock, 'lockName'> {
  readonly lock: { readonly name: string };
  readonly heldSince: Date;
  readonly token: bigint | undefined;
}

/** The loss of a grant, as its error and the event tell it. */
export function lossOf(
  grant: LostGrant,
  lossReason: LossReason,
): LostEvent & { error: LockLostError } {
  const { lock, ownerId, heldForMs, heldSince, token } = grant;
  const lost = { lockName: lock.name, ownerId, heldForMs };
  const error = lockLost(lost, lossReason);
  return { ...lost, lossReason, ...shownToken(token), heldSince, error };
}
