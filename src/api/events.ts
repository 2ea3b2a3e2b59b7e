// What a client tells: the events of `Holdfast#on`, one type each.

import { inspect } from 'node:util';
import { EventEmitter } from 'eventemitter3';
import { outsideScopes } from '../scopes/scope.js';
import type { HoldfastError, LossReason } from './errors.js';
import { Outage } from './outage.js';

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
}

/**
 * A hold was released.
 *
 * @group Events
 */
export interface ReleasedEvent extends LockEvent {
  /** How often its owner still holds it; 0: the lock is free. */
  holdCount: number;
  /** How long the owner has held the lock, in milliseconds. */
  heldForMs: number;
}

/**
 * A call found the lock held by somebody else and waits.
 *
 * @group Events
 */
export interface WaitingEvent extends LockEvent {
  /** The owner that holds it. */
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
 * Something failed that no caller waits for: a connection, a renewal, a clean-up.
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
}

type Listener<Name extends keyof HoldfastEvents> = HoldfastEvents[Name];

/** Tells listeners, outside all scopes, and lets none of them break the lock that tells, or keep others from hearing. */
export class Events {
  readonly #emitter = new EventEmitter();
  /** Each listener in its wrapping, by which it is known to the emitter. */
  readonly #guarded = new WeakMap<object, (event: unknown) => void>();
  /** The connections that are down. */
  readonly #down = new Set<string>();
  #isOutageWarned = false;
  /** What else was told to nobody. */
  readonly #unheard = new Outage();

  on<Name extends keyof HoldfastEvents>(name: Name, listener: Listener<Name>): void {
    this.#emitter.on(name, this.#guard(name, listener));
  }

  once<Name extends keyof HoldfastEvents>(name: Name, listener: Listener<Name>): void {
    this.#emitter.once(name, this.#guard(name, listener));
  }

  off<Name extends keyof HoldfastEvents>(name: Name, listener: Listener<Name>): void {
    this.#emitter.off(name, this.#guard(name, listener));
  }

  /** Whether a connection is down; those that are at the same time are one outage. */
  outage(connection: string, isOn: boolean): void {
    if (!isOn) {
      this.#down.delete(connection);
      return;
    }
    if (this.#down.size === 0) {
      this.#isOutageWarned = false;
      this.#unheard.end();
    }
    this.#down.add(connection);
  }

  /** Builds the event only if somebody listens; but an `error` is never lost in silence. */
  emit<Name extends keyof HoldfastEvents>(
    name: Name,
    describe: () => Parameters<Listener<Name>>[0],
  ): void {
    if (this.#emitter.listenerCount(name) > 0)
      outsideScopes(() => this.#emitter.emit(name, describe()));
    else if (name === 'error') this.#warn((describe() as ErrorEvent).error.message);
  }

  /** One warning for an outage, whatever fails in it, and one for each thing that fails besides. */
  #warn(message: string): void {
    const isOutage = this.#down.size > 0;
    if (isOutage ? this.#isOutageWarned : !this.#unheard.isNews(message)) return;
    this.#isOutageWarned ||= isOutage;
    process.emitWarning(
      `${message} (nobody listens to the "error" event, which tells more: holdfast.on('error', …))`,
      'HoldfastWarning',
    );
  }

  #guard<Name extends keyof HoldfastEvents>(
    name: Name,
    listener: Listener<Name>,
  ): (event: unknown) => void {
    const known = this.#guarded.get(listener);
    if (known) return known;
    const report = (error: unknown): void => {
      process.emitWarning(`a listener of "${name}" failed: ${inspect(error)}`, 'HoldfastWarning');
    };
    const call = listener as (event: unknown) => unknown;
    const guarded = (event: unknown): void => {
      try {
        const result = call(event);
        if (result instanceof Promise) result.catch(report);
      } catch (error) {
        report(error);
      }
    };
    this.#guarded.set(listener, guarded);
    return guarded;
  }
}
