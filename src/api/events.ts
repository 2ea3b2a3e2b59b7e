// The events of a client, `Holdfast#on`, one type each.

import type { LockLostError, LossReason } from './errors.js';

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
  /** How often its owner still holds the lock; 0: not any more. */
  holdCount: number;
  /** How long the owner has held the lock, in milliseconds; may have decimals. */
  heldForMs: number;
  /** As in {@link AcquiredEvent}. */
  token?: string;
}

/**
 * A call found the lock held by another owner, and waits. Emitted once a call. Its `ownerId` may differ from that of the `acquired` event
 * that follows.
 *
 * @group Events
 */
export interface WaitingEvent extends LockEvent {
  /** The owner that holds the lock, or one of several: `<clientId>:<n>`; while nobody holds it, the first in the queue. */
  holder: string;
  /** What is left of that owner's lease, in milliseconds; -1: no expiry. */
  holderTtlMs: number;
}

/**
 * The watchdog renewed a lease: of each lock, every `lockWatchdogTimeout / 3`.
 *
 * @group Events
 */
export interface RenewedEvent extends LockEvent {
  /** The lease in milliseconds, counted from the renewal. */
  leaseMs: number;
}

/**
 * A lock was lost while it was held. The `signal` of its holds aborts.
 *
 * @group Events
 */
export interface LostEvent extends LockEvent {
  /** How it was lost. */
  lossReason: LossReason;
  /** When it was acquired. */
  heldSince: Date;
  /** How long it was held, in milliseconds; may have decimals. */
  heldForMs: number;
  /** As in {@link AcquiredEvent}; every later holder has a larger one. */
  token?: string;
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

/** Emits events to the listeners; an `error` without a listener warns the process. */
export interface Events {
  /** Builds the event only if there is a listener; an `error` is never lost in silence. */
  emit<Name extends keyof HoldfastEvents>(
    name: Name,
    describe: () => Parameters<HoldfastEvents[Name]>[0],
  ): void;
  /** Notes that a connection is down, or up again. Connections that are down at the same time are one outage. */
  outage(connection: unknown, isOn: boolean): void;
}
