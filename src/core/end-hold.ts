// Tells of the end of a hold by `released`, and of the failure of a release that no caller waits for by `error`.

import { shownToken } from '../api/description.js';
import { isUnanswered } from '../api/errors.js';
import type { Session } from './session.js';

/** The grant of the hold that has ended. */
interface Ended {
  readonly ownerId: string;
  readonly holdCount: number;
  readonly heldForMs: number;
  readonly lock: { readonly name: string };
  readonly token: bigint | undefined;
}

/** `endedAfterMs`: how long the owner had held the grant when it was passed on or given back; since then the grant is not the owner's. */
export function emitReleased(session: Session, grant: Ended, endedAfterMs?: number): void {
  session.events.emit('released', () => ({
    lockName: grant.lock.name,
    ownerId: grant.ownerId,
    holdCount: endedAfterMs === undefined ? grant.holdCount : 0,
    heldForMs: endedAfterMs ?? grant.heldForMs,
    ...shownToken(grant.token),
  }));
}

/** Awaits a release; that Redis could not be asked becomes an `error` event, and no rejection. */
export function quietly(
  session: Session,
  { lockName, ownerId }: { readonly lockName: string; readonly ownerId: string },
  releasing: Promise<void>,
): Promise<void> {
  return releasing.catch((error: unknown) => {
    if (!isUnanswered(error)) throw error;
    session.events.emit('error', () => ({ error, lockName, ownerId }));
  });
}

/** A release that calls back when it is settled, with the error if it failed, as a promise. */
export function whenSettled(release: (done: (error?: Error) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    release((error) => {
      if (error) reject(error);
      else resolve();
    });
  });
}
