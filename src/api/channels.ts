// What holdfast publishes on channels of `node:diagnostics_channel`, for metrics and traces. Nothing is built for a channel that nobody
// subscribes to.

import type { ErrorCode, LockLostError, LossReason } from './errors.js';

/**
 * The channels' names. `acquire` and `hold` are tracing channels (`diagnostics_channel.tracingChannel(name)`), the others plain ones
 * (`diagnostics_channel.subscribe(name, …)`).
 *
 * @group Channels
 */
export const CHANNELS = {
  /** From the call to the hold, or to its refusal: {@link AcquireMessage}. */
  acquire: 'holdfast:acquire',
  /** From the grant to the end of the hold: {@link HoldMessage}. */
  hold: 'holdfast:hold',
  /** A call began to wait: the {@link AcquireMessage} of its call, whose `holder` is set now. */
  waiting: 'holdfast:waiting',
  /** A lock was lost: {@link LostMessage}. */
  lost: 'holdfast:lost',
  /** The watchdog's renewal of some leases was answered, or was not: {@link RenewedMessage}. */
  renewed: 'holdfast:renewed',
  /** A caller got a lock that the previous holder handed over to it: {@link HandedOverMessage}. */
  handedOver: 'holdfast:handed-over',
  /** A connection failed or is back: {@link ConnectionMessage}. */
  connection: 'holdfast:connection',
} as const;

/**
 * How a call got its lock.
 *
 * - `first-try`: the first command acquired it
 * - `message`: after waiting, a later try acquired it; a message, or the poll of the waiting client, woke it
 * - `hand-over`: the release of another owner gave it to the first in line
 * - `local`: the release of another caller of this client gave it to this one
 * - `kept`: this client had kept the lock since its last hold, so no command was sent
 * - `re-entry`: a hold around the call already had it
 * - `adoption`: `adopt()` took over the hold of another process
 *
 * @group Channels
 */
export type Via =
  'first-try' | 'message' | 'hand-over' | 'local' | 'kept' | 're-entry' | 'adoption';

/**
 * Why a call ended without its lock.
 *
 * - `timeout`: another owner had it until the `wait` ran out
 * - `not-free`: another owner had it, and the call does not wait
 * - `aborted`: its `signal` aborted
 * - `unavailable`: Redis did not answer, or refused; or too few masters of a Redlock did
 * - `closed`: the client is closed
 * - `error`: another error, whose code stands beside it
 *
 * @group Channels
 */
export type Refusal = 'timeout' | 'not-free' | 'aborted' | 'unavailable' | 'closed' | 'error';

/**
 * The fields that all messages about a lock have.
 *
 * @group Channels
 */
export interface LockMessage {
  /** The client, as `Holdfast.clientId` has it. A Redlock's is that of the client whose `getRedLock` made it. */
  readonly clientId: string;
  /** The lock's name that was given to `getLock`. */
  readonly lockName: string;
  /** The lock's kind, as `LockDescription.kind` has it, or `Semaphore`. */
  readonly kind: string;
}

/**
 * A call that acquires a lock.
 *
 * @group Channels
 */
export interface AcquireMessage extends LockMessage {
  /** The free text that the call was given. */
  readonly label: string | undefined;
  /** The same in the events `waiting`, `acquired` and `refused` of the call. */
  readonly waitId: string;
  /** From its `waiting` on: the owner that had the lock when the call began to wait. */
  holder?: string;
  /** At the end: `acquired`, or why not. */
  outcome?: 'acquired' | Refusal;
  /** At the end, if it was acquired: how. */
  via?: Via;
  /** At the end: how many tries were sent. */
  attempts?: number;
  /** At the end: how long the call took, in milliseconds; may have decimals. */
  tookMs?: number;
  /** At the end, if it was refused: the error that the caller gets (`tryLock()` and `tryAcquire()` make a result of a timeout). */
  error?: unknown;
  /** At the end, if it was refused by an error of holdfast: its code. */
  code?: ErrorCode | undefined;
}

/**
 * A hold.
 *
 * @group Channels
 */
export interface HoldMessage extends LockMessage {
  /** The free text that the call was given. */
  readonly label: string | undefined;
  /** The owner on the server: `<clientId>:<n>`. */
  readonly ownerId: string;
  /** The same in the events of the hold. */
  readonly holdId: string;
  /** How the lock was got. */
  readonly via: Via;
  /** The fencing token, if there is one. */
  readonly token: bigint | undefined;
  /** A subscriber may set it at `start`: then `withLock` calls its function through it, for example inside a span. */
  runInside?: <T>(fn: () => T) => T;
  /** At the end. */
  end?: 'released' | 'lost';
  /** At the end, if it was lost. */
  lossReason?: LossReason;
  /** At the end, if it was lost. */
  error?: LockLostError;
  /** At the end: how long it was held, in milliseconds; may have decimals. */
  heldForMs?: number;
}

/**
 * A lock was lost.
 *
 * @group Channels
 */
export interface LostMessage extends LockMessage {
  /** The owner on the server. */
  readonly ownerId: string;
  /** How it was lost. */
  readonly lossReason: LossReason;
  /** The holds that have lost it. */
  readonly holdIds: readonly string[];
}

/**
 * Answers to renewals of leases, of locks and of places in line.
 *
 * @group Channels
 */
export interface RenewedMessage {
  /** The client. */
  readonly clientId: string;
  /** `kept`: the lease is extended; `lost`: the server does not have it any more; `unanswered`: sent again soon. */
  readonly outcome: 'kept' | 'lost' | 'unanswered';
  /** How many leases. */
  readonly leases: number;
}

/**
 * A hand-over arrived.
 *
 * @group Channels
 */
export interface HandedOverMessage extends LockMessage {
  /** The owner that has the lock now. */
  readonly ownerId: string;
  /** `hand-over`: in a line on the server; `local`: within this client. */
  readonly via: 'hand-over' | 'local';
  /** From when this client knew of the hand-over until its caller had the hold, in milliseconds; may have decimals. */
  readonly tookMs: number;
}

/**
 * A connection failed, or is back.
 *
 * @group Channels
 */
export interface ConnectionMessage {
  /** The client. */
  readonly clientId: string;
  /** What the connection is for, as in `RecoveredEvent`. */
  readonly connection: string;
  /** Where it leads. */
  readonly address: string;
  /** What happened. */
  readonly state: 'failed' | 'recovered';
  /** If it failed: why. */
  readonly error?: Error;
  /** If it is back: how long ago its failure was reported, in whole milliseconds. */
  readonly lastedMs?: number;
}

/**
 * The messages of the plain channels but `waiting`, by their key in {@link CHANNELS}.
 *
 * @group Channels
 */
export interface PointMessages {
  lost: LostMessage;
  renewed: RenewedMessage;
  handedOver: HandedOverMessage;
  connection: ConnectionMessage;
}
