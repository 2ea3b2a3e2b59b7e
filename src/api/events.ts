// The events of a client, `Holdfast#on`, one type each.

import type { PointMessages, Refusal, Via } from './channels.js';
import type { ErrorCode, LockLostError, LossReason } from './errors.js';

/**
 * The fields that all events about a lock have.
 *
 * @group Events
 */
export interface LockEvent {
  /** The lock's name that was given to `getLock`. */
  lockName: string;
  /** The owner on the server: `<clientId>:<n>`. */
  ownerId: string;
}

/**
 * A lock was acquired, also by a nested call.
 *
 * @group Events
 */
export interface AcquiredEvent extends LockEvent {
  /** The hold, in all its events: `<clientId>#<n>`. */
  holdId: string;
  /** The call that waited, as in its {@link WaitingEvent}; left out: it did not wait. */
  waitId?: string;
  /** The free text that the call was given as `label`. */
  label?: string;
  /** How it was acquired. */
  via: Via;
  /** How long the call took, in whole milliseconds. */
  waitedMs: number;
  /** How many tries were sent to the server; 0: a hand-over or a re-entry needed none. */
  attempts: number;
  /** How often its owner holds the lock now; 1: the outermost acquisition. */
  holdCount: number;
  /** The lease in milliseconds. */
  leaseMs: number;
  /** Whether the watchdog renews the lease; false: the call gave a `lease`. */
  watched: boolean;
  /**
   * The fencing token in decimal digits, if the lock is a fenced one. A string, since JSON knows no `bigint`: `BigInt(event.token!)` is
   * `hold.token`.
   */
  token?: string;
}

/**
 * A hold was released. So is a member of a MultiLock that is given back because another member was lost.
 *
 * @group Events
 */
export interface ReleasedEvent extends LockEvent {
  /** The hold, as in its {@link AcquiredEvent}. */
  holdId: string;
  /** How often its owner still holds the lock; 0: not any more. */
  holdCount: number;
  /** How long the owner has held the lock, in whole milliseconds. */
  heldForMs: number;
  /** As in {@link AcquiredEvent}. */
  token?: string;
}

/**
 * A call found the lock held by another owner, and waits. Emitted once a call. An {@link AcquiredEvent} or a {@link RefusedEvent} with the
 * same `waitId` follows; its `ownerId` may differ.
 *
 * @group Events
 */
export interface WaitingEvent extends LockEvent {
  /** The call: `<clientId>#<n>`. */
  waitId: string;
  /** The free text that the call was given as `label`. */
  label?: string;
  /** The owner that holds the lock, or one of several: `<clientId>:<n>`; while nobody holds it, the first in the queue. */
  holder: string;
  /** What is left of that owner's lease, in milliseconds; -1: no expiry. */
  holderTtlMs: number;
}

/**
 * A call ended without the lock. Of a MultiLock, there is one for the whole, and one for each member that the call waited for.
 *
 * @group Events
 */
export interface RefusedEvent {
  /** The lock's name that was given to `getLock`. */
  lockName: string;
  /** The call that waited, as in its {@link WaitingEvent}; left out: it did not wait. */
  waitId?: string;
  /** The free text that the call was given as `label`. */
  label?: string;
  /** Why. */
  reason: Refusal;
  /** The code of the error, if it is one of holdfast's. */
  code?: ErrorCode;
  /** How long the call took, in whole milliseconds. */
  waitedMs: number;
  /** How many tries were sent to the server. */
  attempts: number;
  /** The owner that had the lock, if it is known. */
  holder?: string;
  /** The error; `tryLock()` and `tryAcquire()` do not throw it if it is a timeout. */
  error: unknown;
}

/**
 * The watchdog renewed a lease: of each lock, every `lockWatchdogTimeout / 3`.
 *
 * @group Events
 */
export interface RenewedEvent extends LockEvent {
  /** The holds that share the lease. */
  holdIds: string[];
  /** The lease in milliseconds, counted from the renewal. */
  leaseMs: number;
}

/**
 * A lock was lost while it was held. The `signal` of its holds aborts.
 *
 * @group Events
 */
export interface LostEvent extends LockEvent {
  /** The holds that have lost it. */
  holdIds: string[];
  /** How it was lost. */
  lossReason: LossReason;
  /** When it was acquired. */
  heldSince: Date;
  /** How long it was held, in whole milliseconds. */
  heldForMs: number;
  /** As in {@link AcquiredEvent}; every later holder has a larger one. */
  token?: string;
  /**
   * The last moment at which the server is known to have had the lock for its holder: what was done before it was protected. If the client
   * kept the lock, holds that began after it, and have ended, may have been without protection.
   */
  provenAt: Date;
  /** The error that the holds' signals carry. */
  error: LockLostError;
}

/**
 * Something works, but is probably not meant.
 *
 * @group Events
 */
export interface WarningEvent {
  /** What it is and what to do. */
  message: string;
  /** The lock that it is about. */
  lockName: string;
  /** The owner that it is about, if there is one. */
  ownerId?: string | undefined;
}

/**
 * Something failed in the background: a connection, a renewal, the release of a `withLock`. Or a server has refused waiting calls for 2 s.
 *
 * @group Events
 */
export interface ErrorEvent {
  /** What went wrong. */
  error: Error;
  /** The lock that it is about, if there is one. */
  lockName?: string | undefined;
  /** The owner that it is about, if there is one. */
  ownerId?: string | undefined;
}

/**
 * A connection that an {@link ErrorEvent} reported as failed is back.
 *
 * @group Events
 */
export interface RecoveredEvent {
  /** What the connection is for: `commands`, `subscriber`, `sharded subscriber` or `acknowledged commands`. */
  connection: string;
  /** Where the connection leads: `host:port`, `cluster`, or with Sentinels `<group> by <host:port>`. */
  address: string;
  /** How long ago the outage was reported, in whole milliseconds. */
  lastedMs: number;
}

/**
 * The events of a client, by name, for `Holdfast.on`.
 *
 * @group Events
 */
export interface HoldfastEvents {
  /** A lock was acquired, also by a nested call. */
  acquired: (event: AcquiredEvent) => void;
  /** A hold was released. */
  released: (event: ReleasedEvent) => void;
  /** A call found the lock held by another owner, and waits. */
  waiting: (event: WaitingEvent) => void;
  /** A call ended without the lock. */
  refused: (event: RefusedEvent) => void;
  /** The watchdog renewed a lease. */
  renewed: (event: RenewedEvent) => void;
  /** A lock was lost while it was held. */
  lost: (event: LostEvent) => void;
  /** Something works, but is probably not meant. */
  warning: (event: WarningEvent) => void;
  /** Something failed in the background. Without a listener, the first error of an outage becomes a warning of the process. */
  error: (event: ErrorEvent) => void;
  /** A connection that an `error` event reported as failed is back. */
  recovered: (event: RecoveredEvent) => void;
}

/** Emits events to the listeners, and messages to the subscribers of channels; an `error` without a listener warns the process. */
export interface Events {
  /** Builds the event only if there is a listener; an `error` is never lost in silence. */
  emit<Name extends keyof HoldfastEvents>(
    name: Name,
    describe: () => Parameters<HoldfastEvents[Name]>[0],
  ): void;
  /** Whether the event has a listener: a check that saves the hot path a closure. */
  hears(name: keyof HoldfastEvents): boolean;
  /** Notes that a connection is down, or up again. Connections that are down at the same time are one outage. */
  outage(connection: unknown, isOn: boolean): void;
  /** Publishes on a channel, if it has a subscriber. */
  publish<Name extends keyof PointMessages>(
    name: Name,
    describe: () => Omit<PointMessages[Name], 'clientId'>,
  ): void;
}
