// What a client tells: the events of `Holdfast#on`, one type each.

import type { HoldfastError, LossReason } from './errors.js';

/**
 * What every event about a lock names.
 *
 * @group Events
 */
export interface LockEvent {
  /** The lock's name, as it was given to `getLock`. */
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
  /** How often its owner holds it now; 1: the outermost acquisition. */
  holdCount: number;
  /** The lease in milliseconds. */
  leaseMs: number;
  /** Whether the watchdog renews it. */
  watched: boolean;
  /**
   * The fencing token in decimal digits, if the lock is a fenced one: as a string, since JSON knows no `bigint`, so that an event can be
   * logged as it is. `BigInt(event.token!) === hold.token`.
   */
  token?: string;
}

/**
 * A hold was released. So is a member of a MultiLock that is given back since another member was lost.
 *
 * @group Events
 */
export interface ReleasedEvent extends LockEvent {
  /** How often its owner still holds it; 0: not any more. */
  holdCount: number;
  /** How long the owner has held the lock, in milliseconds. */
  heldForMs: number;
  /** As in {@link AcquiredEvent}. */
  token?: string;
}

/**
 * A call found the lock held by somebody else and waits.
 *
 * @group Events
 */
export interface WaitingEvent extends LockEvent {
  /** The owner that holds it, or one of several; while nobody holds it, who is first in line for it. */
  holder: string;
  /** What is left of that owner's lease, in milliseconds; -1: no expiry. */
  holderTtlMs: number;
}

/**
 * The watchdog renewed a lease.
 *
 * @group Events
 */
export interface RenewedEvent extends LockEvent {
  /** The lease in milliseconds, counted from the renewal. */
  leaseMs: number;
}

/**
 * A lock was lost while it was held.
 *
 * @group Events
 */
export interface LostEvent extends LockEvent {
  /** How it was lost. */
  lossReason: LossReason;
  /** When it was acquired. */
  heldSince: Date;
  /** How long it was held, in milliseconds. */
  heldForMs: number;
  /** As in {@link AcquiredEvent}: who comes later has a larger one. */
  token?: string;
  /** The same error that the holds' signals carry. */
  error: HoldfastError;
}

/**
 * Something that works but is probably not meant.
 *
 * @group Events
 */
export interface WarningEvent {
  /** What it is and what to do. */
  message: string;
  /** The lock it is about. */
  lockName: string;
  /** The owner it is about, where there is one. */
  ownerId?: string | undefined;
}

/**
 * Something failed that no caller waits for: a connection, a renewal, a clean-up. Or a server has refused for 2 s what callers wait for.
 *
 * @group Events
 */
export interface ErrorEvent {
  /** What went wrong. */
  error: Error;
  /** The lock it is about, where there is one. */
  lockName?: string | undefined;
  /** The owner it is about, where there is one. */
  ownerId?: string | undefined;
}

/**
 * An outage is over that an {@link ErrorEvent} told of: a connection that was lost stands again.
 *
 * @group Events
 */
export interface RecoveredEvent {
  /** What the connection is for, in the words of the `error` event. */
  connection: string;
  /** Where it leads. */
  address: string;
  /** How long the outage was since it was told of, in milliseconds. */
  lastedMs: number;
}

/**
 * The events of a client.
 *
 * @group Events
 */
export interface HoldfastEvents {
  /** A lock was acquired, also by a nested call. */
  acquired: (event: AcquiredEvent) => void;
  /** A hold was released. */
  released: (event: ReleasedEvent) => void;
  /** A call found the lock held and waits. */
  waiting: (event: WaitingEvent) => void;
  /** The watchdog renewed a lease. */
  renewed: (event: RenewedEvent) => void;
  /** A lock was lost while it was held. */
  lost: (event: LostEvent) => void;
  /** Something works but is probably not meant. */
  warning: (event: WarningEvent) => void;
  /** Something failed for which no caller waits. Without a listener, the first of an outage is a warning of the process. */
  error: (event: ErrorEvent) => void;
  /** An outage is over that an `error` told of. */
  recovered: (event: RecoveredEvent) => void;
}

/** Where everything that happens is told: to those who listen, and an error to the process if nobody does. */
export interface Events {
  /** Builds the event only if somebody listens; but an `error` is never lost in silence. */
  emit<Name extends keyof HoldfastEvents>(
    name: Name,
    describe: () => Parameters<HoldfastEvents[Name]>[0],
  ): void;
  /** A connection went down, or is up again. Connections that are down at the same time are one outage. */
  outage(connection: unknown, isOn: boolean): void;
}
