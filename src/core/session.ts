// What the locks of one Holdfast share: its connection, its times, its events, and all that is held or awaited.

import { AnonymousHolds } from '../scopes/anonymous-holds.js';
import { ClosedError, UnavailableError } from '../api/errors.js';
import type { HoldfastError } from '../api/holdfast-error.js';
import type { Events } from '../api/events.js';
import { ownersOf } from './client-id.js';
import { retry } from './retry.js';
import { Cleanup, type Removable } from './cleanup.js';
import { NestedCalls } from './nested-calls.js';
import { ReleasedOwners } from './released-owners.js';
import type { Conflicting } from './key-conflict.js';
import { closeSession, type MemberHold, type SessionGrant } from './close-session.js';
import { PROCESS_CLOCK, PROCESS_RANDOM, type Clock, type TimeLimit } from '../runtime/clock.js';
import { inTurn } from '../runtime/loop-turns.js';
import { Schedule } from '../runtime/schedule.js';
import type { RedisClient } from '../redis/client.js';
import { describe, isReply } from '../redis/failure.js';
import type { Surroundings } from '../redis/session.js';
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
  /** How long a call waits that does not say it, in milliseconds; left out: for ever. */
  defaultWaitMs?: number;
  /** The schedule of its client; it may be shared with another session. */
  schedule?: Schedule;
  /** Makes the owners of its client; it may be shared with another session. */
  newOwnerId?: () => string;
}

/** The part of a connection that locks need to know of. */
export type Reachable = Pick<RedisClient, 'isReady' | 'whenReady' | 'lastError'> &
  Partial<Pick<RedisClient, 'refusals' | 'hasSentinels'>> & {
    /** Left out: those of the process. */
    readonly surroundings?: Pick<Surroundings, 'clock' | 'random'>;
  };

export class Session {
  readonly clock: Clock;
  /** A number from 0 to 1, as `Math.random()` gives it. */
  readonly random: () => number;
  readonly clientId: string;
  /** A new owner, never used before. */
  readonly newOwnerId: () => string;
  readonly lockWatchdogTimeoutMs: number;
  readonly commandTimeoutMs: number;
  /** How long a call waits that does not say it, in milliseconds; but one that only tries waits for 0 ms. */
  readonly defaultWaitMs: number;
  readonly events: Events;
  readonly warnings: Warnings;
  readonly connection: Reachable;
  readonly cleanup: Cleanup;
  readonly anonymous: AnonymousHolds = new AnonymousHolds();
  readonly nestedCalls: NestedCalls;
  /** The timer that deadlines, renewal rounds and the limits of releases share. */
  readonly schedule: Schedule;
  /** The grants that are held, or whose release is not confirmed so far. */
  readonly grants: Set<SessionGrant> = new Set<SessionGrant>();
  /** The holds of other clients' locks that are members of this client's MultiLocks. */
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
    const { clock = PROCESS_CLOCK, random = PROCESS_RANDOM } = connection.surroundings ?? {};
    this.clock = clock;
    this.random = random;
    this.#closeConcurrency = closeConcurrency;
    this.clientId = options.clientId;
    this.newOwnerId = options.newOwnerId ?? ownersOf(options.clientId);
    this.lockWatchdogTimeoutMs = options.lockWatchdogTimeoutMs;
    this.commandTimeoutMs = options.commandTimeoutMs;
    this.defaultWaitMs = options.defaultWaitMs ?? Infinity;
    this.schedule = options.schedule ?? new Schedule(clock);
    this.connection = connection;
    const released = connection.hasSentinels
      ? new ReleasedOwners<Removable>(clock, options.lockWatchdogTimeoutMs)
      : undefined;
    this.cleanup = new Cleanup(() => connection.isReady, released, clock);
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

  assertOpen(lockName: string): void {
    if (this.#isClosed) throw this.closedError(lockName);
  }

  closedError(lockName?: string): ClosedError {
    const which = lockName === undefined ? '' : `lock "${lockName}": `;
    return new ClosedError(`${which}the client is closed`, { lockName });
  }

  /** A grant of this lock that this client may rely on, if it has one. */
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

  /** Redis granted a lock, and its answer took longer than the lease. */
  tooLate(lockName: string, leaseMs: number): HoldfastError {
    const lease = `the lease of ${String(leaseMs)} ms`;
    return this.unavailable(lockName, `not acquired: Redis took longer to answer than ${lease}`);
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
    const waitLimit = new WaitLimit({
      clock: this.clock,
      limitMs: this.commandTimeoutMs,
      ...options,
    });
    try {
      return await operation(waitLimit);
    } catch (error) {
      if (!(error instanceof WaitEnded)) throw await inTurn(error);
      if (error.ending === 'closed') throw this.closedError(lockName);
      throw this.unanswered(lockName, what, this.commandTimeoutMs, error.trouble);
    } finally {
      waitLimit.dispose();
    }
  }

  /** Asks for something that must not be done twice, since a repeat might hit a holder who came since. */
  async askOnce<T>(lock: Conflicting, what: string, request: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw await inTurn(this.closedError(lock.name));
    const untilAnswered = (waitLimit: WaitLimit): Promise<T> =>
      retry(this.connection, waitLimit, lock, (isRepeat) => {
        if (!isRepeat) return request();
        const lost = `${what}: the connection was lost before the answer came`;
        throw this.unavailable(lock.name, lost, waitLimit.trouble);
      });
    return await this.bounded(lock.name, what, untilAnswered, { registry: this.acquisitions });
  }

  /** Asks something about a lock until it is answered, or Redis is known to be down. Closing the client ends it. */
  async ask<T>(lock: Conflicting, question: (limit: TimeLimit) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw await inTurn(this.closedError(lock.name));
    const untilAnswered = (waitLimit: WaitLimit): Promise<T> =>
      retry(this.connection, waitLimit, lock, () => question(waitLimit));
    const options = { registry: this.acquisitions, isSingleAttempt: true };
    return await this.bounded(lock.name, 'not looked at', untilAnswered, options);
  }

  /**
   * Ends what waits, takes back and releases what is held, and removes what is left. Bounded by `commandTimeout`. `others`: the end of
   * what else may leave owners to be removed; it is awaited before the last clean-up.
   */
  async close(others?: Promise<void>): Promise<void> {
    this.#isClosed = true;
    await closeSession(this, this.#closeConcurrency, others);
  }
}
