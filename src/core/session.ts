// What the locks of one Holdfast share: its connection, its times, its events, and all that is held or awaited.

import { setImmediate } from 'node:timers';
import pLimit from 'p-limit';
import { AnonymousHolds } from '../scopes/anonymous-holds.js';
import {
  ClosedError,
  UnavailableError,
  type HoldfastError,
  type LockLostError,
  type LossReason,
} from '../api/errors.js';
import type { Events } from '../api/events.js';
import { ownersOf } from './client-id.js';
import { retry } from './retry.js';
import { Cleanup, type Removable } from './cleanup.js';
import { NestedCalls } from './nested-calls.js';
import type { Conflicting } from './key-conflict.js';
import { lockLost, type LostLock } from './loss.js';
import type { TimeLimit } from '../runtime/clock.js';
import { Schedule } from '../runtime/schedule.js';
import type { Connection } from '../redis/connection.js';
import { describe, isReply } from '../redis/failure.js';
import { WaitLimit, WaitEnded, type Call, type WaitLimitOptions } from '../runtime/wait-limit.js';
import { Warnings } from './warnings.js';
import { Undecided } from './undecided.js';

/** How many releases a closing client has under way at a time. */
const CLOSE_CONCURRENCY = 64;

export interface SessionOptions {
  /** Identifies this client on the server: the first half of every owner. */
  clientId: string;
  lockWatchdogTimeoutMs: number;
  commandTimeoutMs: number;
  /** Where what its client has to look at in time is scheduled; it may be shared. */
  schedule?: Schedule;
  /** Makes the owners of its client; it may be shared. */
  newOwnerId?: () => string;
}

/** The part of a connection that locks need to know of. */
export type Reachable = Pick<Connection, 'isReady' | 'whenReady' | 'lastError'>;

/** A grant, as the session deals with it. */
export interface SessionGrant {
  readonly lock: Removable & { readonly name: string };
  readonly ownerId: string;
  readonly isReleased: boolean;
  readonly heldForMs: number;
  /** Milliseconds for which this process may rely on it. */
  remaining(): number;
  lose(lossReason: LossReason): LockLostError;
  /** The client was closed, and has released it, or not: then as far as `error` says. */
  closed(error?: Error): void;
}

/** A hold of a lock of another client that is a member of a lock of this one. */
interface MemberHold extends LostLock {
  revoke(error: LockLostError): Promise<void>;
}

export class Session {
  readonly clientId: string;
  /** A new owner, never used before. */
  readonly newOwnerId: () => string;
  readonly lockWatchdogTimeoutMs: number;
  readonly commandTimeoutMs: number;
  readonly events: Events;
  readonly warnings: Warnings;
  readonly connection: Reachable;
  readonly cleanup: Cleanup = new Cleanup();
  readonly anonymous: AnonymousHolds = new AnonymousHolds();
  readonly nestedCalls: NestedCalls;
  /** The one timer of its client. */
  readonly schedule: Schedule;
  /** All that is held on the server. */
  readonly grants: Set<SessionGrant> = new Set<SessionGrant>();
  /** What is held of other clients' locks, as members of locks of this one. */
  readonly memberHolds: Set<MemberHold> = new Set<MemberHold>();
  /** All acquisitions that are under way. */
  readonly acquisitions: Set<Call> = new Set<Call>();
  /** For calls that only the client's close can end. */
  readonly untilClosed: TimeLimit;
  readonly #closeConcurrency: number;
  #isClosed = false;

  /** `closeConcurrency`: how many holds are released at a time when it is closed. */
  constructor(
    options: SessionOptions,
    connection: Reachable,
    events: Events,
    closeConcurrency: number = CLOSE_CONCURRENCY,
  ) {
    this.#closeConcurrency = closeConcurrency;
    this.clientId = options.clientId;
    this.newOwnerId = options.newOwnerId ?? ownersOf(options.clientId);
    this.lockWatchdogTimeoutMs = options.lockWatchdogTimeoutMs;
    this.commandTimeoutMs = options.commandTimeoutMs;
    this.schedule = options.schedule ?? new Schedule();
    this.connection = connection;
    this.events = events;
    this.warnings = new Warnings(events);
    this.nestedCalls = new NestedCalls(this);
    const isClosed = (): boolean => this.#isClosed;
    this.untilClosed = {
      get leftMs() {
        return isClosed() ? 0 : Infinity;
      },
    };
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  assertOpen(lockName?: string): void {
    if (this.#isClosed) throw this.closedError(lockName);
  }

  closedError(lockName?: string): ClosedError {
    const which = lockName === undefined ? '' : `lock "${lockName}": `;
    return new ClosedError(`${which}the client is closed`, { lockName });
  }

  /** What this client holds of a lock, as far as it may rely on it. */
  grantOf(lockId: string): SessionGrant | undefined {
    for (const grant of this.grants)
      if (grant.lock.id === lockId && grant.remaining() > 0) return grant;
    return undefined;
  }

  /** Redis gave no usable answer within `limitMs`: it was silent, out of reach, or refused all the time. */
  unanswered(lockName: string, what: string, limitMs: number, cause?: Error): HoldfastError {
    const refused = isReply(this.connection.lastError ?? cause);
    const limit = `${refused ? 'refused for' : 'did not answer within'} ${String(limitMs)} ms`;
    return this.unavailable(lockName, `${what}: Redis ${limit}`, cause);
  }

  /** Redis could not be asked about a lock: says what is not known, and what is wrong with the connection. */
  unavailable(lockName: string, what: string, cause?: Error): HoldfastError {
    if (cause instanceof Undecided) return cause.told;
    // What is wrong with the connection says more than "the command was lost with it".
    const trouble = this.connection.lastError ?? cause;
    const why = trouble ? ` (last error: ${describe(trouble)})` : '';
    return new UnavailableError(`lock "${lockName}" ${what}${why}`, {
      lockName,
      ...(trouble && { cause: trouble }),
    });
  }

  /** Runs an operation that `commandTimeout` bounds. */
  async bounded<T>(
    lockName: string,
    what: string,
    operation: (waitLimit: WaitLimit) => Promise<T>,
    options: Partial<WaitLimitOptions> = {},
  ): Promise<T> {
    const waitLimit = new WaitLimit({ limitMs: this.commandTimeoutMs, ...options });
    try {
      return await operation(waitLimit);
    } catch (error) {
      if (!(error instanceof WaitEnded)) throw error;
      if (error.ending === 'closed') throw this.closedError(lockName);
      throw this.unanswered(lockName, what, this.commandTimeoutMs, error.trouble);
    } finally {
      waitLimit.dispose();
    }
  }

  /** Asks for something that must not be done twice: a repeat might meet somebody who came since. */
  async askOnce<T>(lock: Conflicting, what: string, request: () => Promise<T>): Promise<T> {
    this.assertOpen(lock.name);
    const insistently = (waitLimit: WaitLimit): Promise<T> =>
      retry(this.connection, waitLimit, lock, (isRepeat) => {
        if (!isRepeat) return request();
        const lost = `${what}: the connection was lost before the answer came`;
        throw this.unavailable(lock.name, lost, waitLimit.trouble);
      });
    return await this.bounded(lock.name, what, insistently, { registry: this.acquisitions });
  }

  /** Asks something about a lock until it is answered, or Redis is known to be down. Closing the client ends it. */
  async ask<T>(lock: Conflicting, question: () => Promise<T>): Promise<T> {
    this.assertOpen(lock.name);
    const insistently = (waitLimit: WaitLimit): Promise<T> =>
      retry(this.connection, waitLimit, lock, question);
    const options = { registry: this.acquisitions, isSingleAttempt: true };
    return await this.bounded(lock.name, 'not looked at', insistently, options);
  }

  /**
   * Ends what waits, takes back and releases what is held, and removes what is left: a server that is not there may come back
   * in time. Bounded by `commandTimeout`. `others`: what has to end before, since it may leave something, too.
   */
  async close(others?: Promise<void>): Promise<void> {
    this.#isClosed = true;
    for (const call of [...this.acquisitions]) call.end('closed');
    const limit = pLimit(this.#closeConcurrency);
    const grants = [...this.grants];
    const releases = grants.map((grant) => {
      if (!grant.isReleased) grant.lose('closed');
      return limit(() => this.#releaseFor(grant));
    });
    for (const hold of this.memberHolds) releases.push(hold.revoke(lockLost(hold, 'closed')));
    // The calls that were ended give their places and owners up in this turn of the loop.
    releases.push(new Promise(setImmediate)); // node:timers', as a test may have faked the global one
    if (others) releases.push(others);
    const waitLimit = new WaitLimit({ limitMs: this.commandTimeoutMs });
    try {
      await waitLimit.within(Promise.allSettled(releases));
    } catch {
      limit.clearQueue(); // Redis does not answer: the leases end by themselves
    }
    for (const grant of grants) grant.closed(this.closedError(grant.lock.name));
    // Also if there is no time left: nothing may be tried again later.
    await this.cleanup.close(waitLimit).catch(() => undefined);
    waitLimit.dispose();
  }

  /** Releases what a closing client held. */
  async #releaseFor(grant: SessionGrant): Promise<void> {
    const { lock, ownerId, heldForMs } = grant;
    let isFirst = true as boolean;
    try {
      const isReleased = await this.bounded(lock.name, 'not known to be released', (waitLimit) =>
        retry(this.connection, waitLimit, { name: lock.name }, (isRepeat) => {
          isFirst = !isRepeat;
          return lock.release(ownerId);
        }),
      );
      const lost = { lockName: lock.name, ownerId, heldForMs };
      grant.closed(isReleased || !isFirst ? undefined : lockLost(lost, 'deleted'));
    } catch (error) {
      grant.closed(error as Error);
    }
  }
}
