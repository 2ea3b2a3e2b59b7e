// Which HTTP status tells the sender of a request what an error means.

import type { ErrorCode } from './errors.js';

/** What each error says to the sender of a request. Nobody is left to be answered when a call was aborted because its sender has gone. */
const STATUSES: Readonly<Record<ErrorCode, number | undefined>> = {
  LOCK_TIMEOUT: 409,
  REDIS_UNAVAILABLE: 503,
  NO_QUORUM: 503,
  CLIENT_CLOSED: 503,
  LOCK_ABORTED: undefined,
  LOCK_LOST: 500,
  LOCK_EXPORTED: 500,
  LOCK_NOT_HELD: 500,
  LOCK_UPGRADE: 500,
  KEY_CONFLICT: 500,
  INVALID_OPTION: 500,
};

/**
 * The HTTP status of the answer to a request that failed with this error.
 *
 * - 409: another owner has the lock; the work was not begun. Send `Retry-After: 1`; how long the holder's lease lasts says nothing of when it
 *   releases the lock
 * - 503: Redis does not answer, or the client is closed; send `Retry-After`, too
 * - 500: the lock was lost, so that work may have been done; also for an error with a {@link LockLostError} as its `cause`, as those of work
 *   that the hold's signal aborted. Or a mistake in code or settings
 *
 * It knows an error by its `code`, since a bundler may copy this package, with classes of its own.
 *
 * @returns undefined: it is no error of holdfast, or the sender has gone ({@link LockAbortedError})
 * @group Errors
 */
export function statusOf(error: unknown): number | undefined {
  const code = codeOf(error);
  if (code !== undefined) return STATUSES[code];
  const { cause } = (error ?? {}) as { cause?: unknown };
  return codeOf(cause) === 'LOCK_LOST' ? STATUSES.LOCK_LOST : undefined;
}

function codeOf(error: unknown): ErrorCode | undefined {
  const { code, help } = (error ?? {}) as { code?: unknown; help?: unknown };
  const isOurs =
    typeof code === 'string' && typeof help === 'string' && Object.hasOwn(STATUSES, code);
  return isOurs ? (code as ErrorCode) : undefined;
}
