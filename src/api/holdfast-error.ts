// What all errors of holdfast have in common.

/**
 * The stable, machine-readable name of an error.
 *
 * @group Errors
 */
export type ErrorCode =
  | 'LOCK_TIMEOUT'
  | 'LOCK_NOT_HELD'
  | 'LOCK_LOST'
  | 'LOCK_ABORTED'
  | 'CLIENT_CLOSED'
  | 'REDIS_UNAVAILABLE'
  | 'NO_QUORUM'
  | 'KEY_CONFLICT'
  | 'LOCK_UPGRADE'
  | 'INVALID_OPTION';

/**
 * What an error may be about: the lock, and the error beneath.
 *
 * @group Errors
 */
export interface ErrorContext {
  /** The lock's name, as it was given to `getLock`. */
  lockName?: string | undefined;
  /** The error or reason beneath. */
  cause?: unknown;
}

/**
 * The base of all errors of this library.
 *
 * @group Errors
 */
export abstract class HoldfastError extends Error {
  /** The stable, machine-readable name of this error. */
  abstract readonly code: ErrorCode;
  /** The lock that the error is about; undefined when it is about none. */
  readonly lockName: string | undefined;

  constructor(message: string, context: ErrorContext = {}) {
    super(message, 'cause' in context ? { cause: context.cause } : undefined);
    this.lockName = context.lockName;
  }
}
