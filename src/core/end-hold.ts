// Tells of the end of a hold by `released`, and of the failure of a release that no caller waits for by `error`.

import { shownToken } from '../api/description.js';
import { isUnanswered, QuorumError, UnavailableError } from '../api/errors.js';
import { failureKind, isReply } from '../redis/failure.js';
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

/** The error of a release that failed, of a lock that nobody in this client holds any more: it also says what becomes of the lock. */
export function notReleased(
  error: UnavailableError | QuorumError,
  lockName: string,
  isConnected: boolean,
): UnavailableError | QuorumError {
  const { cause, message } = error;
  const kind = isReply(cause) ? failureKind(cause) : undefined;
  const isRefused = isConnected && (kind === 'denied' || kind === 'defect');
  const what = isRefused ? 'not released' : 'not known to be released';
  const said = message.replace(`lock "${lockName}": `, `lock "${lockName}" ${what}: `);
  const next = isRefused
    ? '. To free it before, remedy that and repeat hold.release() (unlock() cannot be repeated)'
    : '; until then this client goes on trying to release it';
  const text = `${said.replace(/\.$/, '')}. It is renewed no more and ends with its lease${next}`;
  return error instanceof QuorumError
    ? new QuorumError(text, { lockName, cause, nodes: error.nodes })
    : new UnavailableError(text, { lockName, cause });
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
