// A hold has ended: that is told, and so is a failure of a release that no caller waits for.

import { shownToken } from '../api/description.js';
import { isUnanswered } from '../api/errors.js';
import type { Session } from './session.js';

/** Whose hold it was. */
interface Ended {
  readonly ownerId: string;
  readonly holdCount: number;
  readonly heldForMs: number;
  readonly lock: { readonly name: string };
  readonly token: bigint | undefined;
}

/** `passedOnAfterMs`: for how long it had been held when its grant was passed on; what the grant says since is of those who came after it. */
export function emitReleased(session: Session, grant: Ended, passedOnAfterMs?: number): void {
  session.events.emit('released', () => ({
    lockName: grant.lock.name,
    ownerId: grant.ownerId,
    holdCount: passedOnAfterMs === undefined ? grant.holdCount : 0,
    heldForMs: passedOnAfterMs ?? grant.heldForMs,
    ...shownToken(grant.token),
  }));
}

/** That Redis could not be asked is an event, not an error. */
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
