// How the loss of a lock is told.

import { LockLostError, type LossReason } from '../api/errors.js';

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
