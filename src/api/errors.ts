// Every error that holdfast throws, each with a stable code.

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
  | 'LOCK_EXPORTED'
  | 'CLIENT_CLOSED'
  | 'REDIS_UNAVAILABLE'
  | 'NO_QUORUM'
  | 'KEY_CONFLICT'
  | 'LOCK_UPGRADE'
  | 'INVALID_OPTION';

/**
 * What an error carries besides its message: the lock that it is about, and the error beneath.
 *
 * @group Errors
 */
export interface ErrorContext {
  /** The lock's name that was given to `getLock`. */
  lockName?: string | undefined;
  /** The error or reason beneath. */
  cause?: unknown;
}

/**
 * The base class of all errors of holdfast. Tell them apart by `code` or by `instanceof`.
 *
 * @group Errors
 */
export abstract class HoldfastError extends Error {
  /** The stable, machine-readable name of this error. */
  abstract readonly code: ErrorCode;
  /** The section to read on, in a file of this package: `docs/reference/errors.md#lock-lost`. */
  abstract readonly help: `docs/reference/errors.md#${string}`;
  /** The name of the lock that the error is about; undefined: it is about no lock. */
  readonly lockName: string | undefined;

  constructor(message: string, context: ErrorContext = {}) {
    super(message, 'cause' in context ? { cause: context.cause } : undefined);
    this.lockName = context.lockName;
  }
}

/**
 * How an owner has a lock.
 *
 * - `held`: as its holder
 * - `released`: it has released the lock, which stays taken until its lease ends (`lockAtLeastFor`); nobody is inside
 * - `kept`: its client may keep the lock while none of its callers is inside (`getLock(name, { keep })`), so perhaps nobody is; a caller of
 *   another client that wants the lock makes it let go
 * - `exported`: `hold.export()` has ended it in its process, and no other one has adopted it so far
 *
 * @group Inspection
 */
export type HolderState = 'held' | 'released' | 'kept' | 'exported';

/**
 * The owner that had the lock when the client last asked.
 *
 * @group Errors
 */
export interface SeenHolder {
  /** The owner that held it, or one of several: `<clientId>:<n>`; while nobody held it, the first in the queue. */
  holder: string;
  /** What was left of that owner's lease, in milliseconds; -1: no expiry; 0: it was just over, or there was none yet. */
  holderTtlMs: number;
  /** How it had the lock; left out: it held it, or only waited. */
  holderState?: HolderState | undefined;
}

/** The same, where it may not be known. */
type SeenBefore = { readonly [Field in keyof SeenHolder]?: SeenHolder[Field] | undefined };

/**
 * Another owner had the lock until the call's `wait` ran out. The guarded work was not begun.
 *
 * @group Errors
 */
export class LockTimeoutError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'LockTimeoutError';
  readonly code = 'LOCK_TIMEOUT';
  readonly help = 'docs/reference/errors.md#lock-timeout';
  /** The owner that was last seen to hold the lock, or one of several: `<clientId>:<n>`; while nobody held it, the first in the queue. */
  readonly holder: string | undefined;
  /** What was then left of that owner's lease, in milliseconds; -1: no expiry; 0: it was just over, or there was none yet. */
  readonly holderTtlMs: number | undefined;

  constructor(message: string, context: ErrorContext & SeenBefore = {}) {
    super(message, context);
    this.holder = context.holder;
    this.holderTtlMs = context.holderTtlMs;
  }
}

/**
 * The caller asked to undo, extend or use a lock that it does not hold. Nothing was changed.
 *
 * @group Errors
 */
export class LockNotHeldError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'LockNotHeldError';
  readonly code = 'LOCK_NOT_HELD';
  readonly help = 'docs/reference/errors.md#lock-not-held';
}

/**
 * How a lock was lost.
 *
 * - `expired`: its lease ended, and nobody renewed it in time (a fixed lease ran out, or this process was paused)
 * - `taken`: another owner holds it, or other data is at its key
 * - `deleted`: its key was gone before the lease ended (`DEL`, `FLUSHALL`, a server that came back empty)
 * - `forced`: a call of `forceUnlock` freed it
 * - `unreachable`: Redis did not confirm a renewal before the lease ended
 * - `closed`: the client was closed, or the `run` that acquired it ended, while it was held
 *
 * @group Errors
 */
export type LossReason = 'expired' | 'taken' | 'deleted' | 'forced' | 'unreachable' | 'closed';

/**
 * The lock was held, and is held no longer: another owner may have changed what it guarded.
 *
 * @group Errors
 */
export class LockLostError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'LockLostError';
  readonly code = 'LOCK_LOST';
  readonly help = 'docs/reference/errors.md#lock-lost';
  /** How it was lost. */
  readonly lossReason: LossReason;
  /**
   * The last moment at which the server is known to have had the lock for its holder, by the clock of this process: what was done before it
   * was protected. undefined: a `run` released a lock that it still held when it ended, or an adoption failed.
   */
  readonly provenAt: Date | undefined;

  constructor(
    message: string,
    context: ErrorContext & { lossReason: LossReason; provenAt?: Date | undefined },
  ) {
    super(message, context);
    this.lossReason = context.lossReason;
    this.provenAt = context.provenAt;
  }
}

/**
 * The caller's `signal` aborted while the call waited. `cause` is the signal's reason.
 *
 * @group Errors
 */
export class LockAbortedError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'LockAbortedError';
  readonly code = 'LOCK_ABORTED';
  readonly help = 'docs/reference/errors.md#lock-aborted';
  /** The owner that was last seen to have the lock, as in {@link LockTimeoutError}; undefined: none was seen. */
  readonly holder: string | undefined;
  /** What was then left of that owner's lease, in milliseconds; -1: no expiry; 0: it was just over, or there was none yet. */
  readonly holderTtlMs: number | undefined;

  constructor(message: string, context: ErrorContext & SeenBefore = {}) {
    super(message, context);
    this.holder = context.holder;
    this.holderTtlMs = context.holderTtlMs;
  }
}

/**
 * The reason of a hold's signal after `export()`: the lock is not lost, but another process may adopt it, and this one must not use it.
 *
 * @group Errors
 */
export class LockExportedError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'LockExportedError';
  readonly code = 'LOCK_EXPORTED';
  readonly help = 'docs/reference/errors.md#lock-exported';
}

/**
 * The client is closed, or was closed during the call; thrown by a release, the work had ended.
 *
 * @group Errors
 */
export class ClosedError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'ClosedError';
  readonly code = 'CLIENT_CLOSED';
  readonly help = 'docs/reference/errors.md#client-closed';
}

/**
 * Redis did not answer in time, could not be reached, or refused. Whether the lock is free is not known.
 *
 * @group Errors
 */
export class UnavailableError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'UnavailableError';
  readonly code = 'REDIS_UNAVAILABLE';
  readonly help = 'docs/reference/errors.md#redis-unavailable';
}

/**
 * Too few masters of a Redlock answered to decide who has the lock.
 *
 * @group Errors
 */
export class QuorumError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'QuorumError';
  readonly code = 'NO_QUORUM';
  readonly help = 'docs/reference/errors.md#no-quorum';
  /** What each master that was asked answered. */
  readonly nodes: readonly NodeAnswer[];

  constructor(message: string, context: ErrorContext & { nodes: readonly NodeAnswer[] }) {
    super(message, context);
    this.nodes = context.nodes;
  }
}

/** Whether an error says that Redis, or a majority of a Redlock's masters, gave no answer. */
export function isUnanswered(error: unknown): error is UnavailableError | QuorumError {
  return error instanceof UnavailableError || error instanceof QuorumError;
}

/**
 * A key of the lock, or one beside it, holds other data. Nothing was changed.
 *
 * @group Errors
 */
export class KeyConflictError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'KeyConflictError';
  readonly code = 'KEY_CONFLICT';
  readonly help = 'docs/reference/errors.md#key-conflict';
  /** The key that is in the way; undefined: that could not be found out. */
  readonly key: string | undefined;
  /** The type of the data at that key, as Redis' `TYPE` names it: `string`, `hash`, … */
  readonly keyType: string | undefined;

  constructor(message: string, context: ErrorContext & { key?: string; keyType?: string } = {}) {
    super(message, context);
    this.key = context.key;
    this.keyType = context.keyType;
  }
}

/**
 * The write lock is wanted inside a hold of the read lock. It would wait for that hold, and so forever. Nothing was sent.
 *
 * @group Errors
 */
export class LockUpgradeError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'LockUpgradeError';
  readonly code = 'LOCK_UPGRADE';
  readonly help = 'docs/reference/errors.md#lock-upgrade';
}

/**
 * An argument or option is not usable. Nothing was sent, or, where the server has to judge it, nothing was changed.
 *
 * @group Errors
 */
export class OptionError extends HoldfastError {
  /** The name of the class. */
  override readonly name = 'OptionError';
  readonly code = 'INVALID_OPTION';
  readonly help = 'docs/reference/errors.md#invalid-option';
}

// What one master of a Redlock answered to a vote, a query, a renewal or a release.

/**
 * What one master of a Redlock answered.
 *
 * - `acquired`: it counts the caller as the holder; for `isLocked()`: an owner holds the lock there
 * - `held`: another owner holds the lock there
 * - `gone`: the caller does not hold it there; for a query: nobody holds it there
 * - `unreachable`: it gave no answer in time, or none that counts: `reason` says why
 * - `guarded`: it was started too recently to vote
 *
 * @group Errors
 */
export type NodeAnswer = {
  /** The address of the master: `host:port`; with Sentinels `<group> by <host:port>`, of the first Sentinel. */
  readonly node: string;
} & (
  | {
      /** The master's answer. */
      readonly answer: 'acquired' | 'gone';
    }
  | {
      /** The master's answer. */
      readonly answer: 'held';
      /** The owner that holds it there: `<clientId>:<n>`. */
      readonly holder: string;
      /** What is left of that owner's lease, in milliseconds; -1: no expiry. */
      readonly holderTtlMs: number;
      /** How it has the lock there; left out: it holds it. */
      readonly holderState?: HolderState | undefined;
    }
  | {
      /** The master's answer. */
      readonly answer: 'unreachable';
      /** Why it gave no answer. */
      readonly reason: string;
    }
  | {
      /** The master's answer. */
      readonly answer: 'guarded';
      /** In how many milliseconds the master may vote. */
      readonly votesInMs: number;
      /**
       * Whether the master may vote earlier if masters that do not answer now do: they can say how long the leases were that it may have
       * forgotten.
       */
      readonly waitsForOthers: boolean;
    }
);
