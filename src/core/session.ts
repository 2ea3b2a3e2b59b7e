// What the locks of one Holdfast share: its connection, its times, its events, and all that is held or awaited.

import { setImmediate } from 'node:timers';
import pLimit from 'p-limit';
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { AnonymousHolds } from '../scopes/anonymous.js';
import {
  ClosedError,
  type HoldfastError,
  LockLostError,
  type LossReason,
  type SeenHolder,
} from '../api/errors.js';
import type { Events } from '../api/events.js';
import { type Conflicting, retry, Undecided } from './retry.js';
import { Cleanup, ReleasedOwners } from './cleanup.js';
import { type Clock, PROCESS_CLOCK, PROCESS_RANDOM, type TimeLimit } from '../runtime/clock.js';
import { inTurn } from '../runtime/node.js';
import { Schedule } from '../runtime/schedule.js';
import type { RedisClient } from '../redis/client.js';
import { isReply } from '../redis/failure.js';
import type { Surroundings } from '../redis/session.js';
import {
  type Call,
  type Ending,
  WaitEnded,
  WaitLimit,
  type WaitLimitOptions,
} from '../runtime/wait-limit.js';
import { Warnings } from './events.js';
import { lockLost, type LostLock, redisUnavailable } from './messages.js';
import { currentScope, Scope } from '../scopes/scope.js';

/** How many releases a closing client has under way at a time. */
const CLOSE_CONCURRENCY = 64;

export interface SessionOptions {
  /** Identifies this client on the server: the first half of every owner. No other client has it. */
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
  /** The timer that deadlines, renewal rounds and the limits of releases share. */
  readonly schedule: Schedule;
  /** The grants that are held, or whose release is not confirmed so far. */
  readonly grants: Grants = new Grants();
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
      ? new ReleasedOwners(clock, options.lockWatchdogTimeoutMs)
      : undefined;
    this.cleanup = new Cleanup(() => connection.isReady, released, clock);
    this.events = events;
    this.warnings = new Warnings(events);
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
    return this.grants.of(lockId).find((grant) => grant.remaining() > 0);
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
    return redisUnavailable(lockName, what, this.connection.lastError ?? cause);
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
      throw this.unanswered(lockName, what, this.commandTimeoutMs, error.lastError);
    } finally {
      waitLimit.dispose();
    }
  }

  /** Asks for something that must not be done twice, since a repeat might hit a holder who came since. */
  askOnce<T>(lock: Conflicting, what: string, request: () => Promise<T>): Promise<T> {
    return this.#untilAnswered(lock, what, false, (_, isRepeat, lastError) => {
      if (!isRepeat) return request();
      const lost = `${what}: the connection was lost before the answer came`;
      throw this.unavailable(lock.name, lost, lastError);
    });
  }

  /** Asks something about a lock until it is answered, or Redis is known to be down. */
  ask<T>(
    lock: Conflicting,
    question: (limit: TimeLimit) => Promise<T>,
    what = 'not looked at',
  ): Promise<T> {
    return this.#untilAnswered(lock, what, true, question);
  }

  /** Closing the client ends it. */
  async #untilAnswered<T>(
    lock: Conflicting,
    what: string,
    isSingleAttempt: boolean,
    send: (limit: TimeLimit, isRepeat: boolean, lastError?: Error) => Promise<T>,
  ): Promise<T> {
    if (this.#isClosed) throw await inTurn(this.closedError(lock.name));
    const untilAnswered = (limit: WaitLimit): Promise<T> =>
      retry(this.connection, limit, lock, (...attempt) => send(limit, ...attempt));
    const options = { registry: this.acquisitions, isSingleAttempt };
    return await this.bounded(lock.name, what, untilAnswered, options);
  }

  /**
   * Ends what waits, takes back and releases what is held, and removes what is left. A server that is down has `commandTimeout` to come
   * back. `others`: the end of what else may leave owners to be removed; it is awaited before the last clean-up.
   */
  async close(others?: Promise<void>): Promise<void> {
    this.#isClosed = true;
    this.#endCalls('closed');
    const limit = pLimit(this.#closeConcurrency);
    const grants = [...this.grants];
    const releases = grants.map((grant) => {
      // A second release beside one that is under way would take from that what it finds out.
      if (grant.isReleased) return grant.whenSettled();
      grant.lose('closed');
      return limit(() => this.#release(grant));
    });
    for (const hold of this.memberHolds) releases.push(hold.revoke(lockLost(hold, 'closed')));
    // Within this turn of the event loop the calls that were ended give up their places, and leave their owners to the clean-up.
    releases.push(new Promise(setImmediate)); // from node:timers, since a test may have faked the global one
    if (others) releases.push(others);
    const waitLimit = new WaitLimit({ clock: this.clock, limitMs: this.commandTimeoutMs });
    try {
      await waitLimit.within(Promise.allSettled(releases));
    } catch {
      // Redis does not answer: the leases end by themselves.
      limit.clearQueue();
      this.#endCalls('timeout');
    }
    // Also if there is no time left: it is what ends the retries.
    await this.cleanup.close(waitLimit).catch(() => undefined);
    waitLimit.dispose();
  }

  #endCalls(ending: Ending): void {
    for (const call of [...this.acquisitions]) call.end(ending);
  }

  /** Releases a grant that was lost by the close. Its callers know of that, so nobody is told what came of the release. */
  async #release(grant: SessionGrant): Promise<void> {
    const { name } = grant.lock;
    const untilAnswered = (waitLimit: WaitLimit): Promise<boolean> =>
      retry(this.connection, waitLimit, { name }, () => grant.giveBack());
    const options = { registry: this.acquisitions };
    await this.bounded(name, 'not known to be released', untilAnswered, options);
  }
}

/** A grant, as the session deals with it. */
export interface SessionGrant {
  readonly lock: { readonly id: string; readonly name: string };
  readonly ownerId: string;
  readonly isReleased: boolean;
  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  readonly isShared: boolean;
  readonly heldForMs: number;
  readonly seen: SeenHolder;
  /** Milliseconds for which this process may rely on it. */
  remaining(): number;
  /** How many of its holds are shared, or how many are not. */
  countOf(isShared: boolean): number;
  lose(lossReason: LossReason): LockLostError;
  /** Resolves when the release that is under way is settled, whatever came of it. */
  whenSettled(): Promise<void>;
  /** Releases it on the server, whatever its state here. */
  giveBack(): Promise<boolean>;
}

/** A hold of another client's lock, which is a member of a MultiLock of this client. */
export interface MemberHold extends LostLock {
  revoke(error: LockLostError): Promise<void>;
}

/** The grants of one client, by lock: a lock has several at a time if it is shared, or if an earlier one is being released. */
class Grants implements Iterable<SessionGrant> {
  /** Most locks have one grant: a set for each would take much room. */
  readonly #ofLock = new Map<string, SessionGrant | Set<SessionGrant>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  of(lockId: string): readonly SessionGrant[] {
    const known = this.#ofLock.get(lockId);
    if (known instanceof Set) return [...known];
    return known ? [known] : [];
  }

  has(grant: SessionGrant): boolean {
    const known = this.#ofLock.get(grant.lock.id);
    return known instanceof Set ? known.has(grant) : known === grant;
  }

  add(grant: SessionGrant): void {
    const { id } = grant.lock;
    const known = this.#ofLock.get(id);
    if (!known) this.#ofLock.set(id, grant);
    else if (known instanceof Set) known.add(grant);
    else this.#ofLock.set(id, new Set([known, grant]));
    this.#size++;
  }

  delete(grant: SessionGrant): void {
    if (!this.has(grant)) return;
    const { id } = grant.lock;
    const known = this.#ofLock.get(id);
    if (known instanceof Set && known.size > 1) known.delete(grant);
    else this.#ofLock.delete(id);
    this.#size--;
  }

  *[Symbol.iterator](): Generator<SessionGrant> {
    for (const lockId of this.#ofLock.keys()) yield* this.of(lockId);
  }
}

// The id of a client, and the owners as which it holds locks: whoever reads "held by …" at night must know where to look. Neither comes
// twice; but a client whose library brings its own random numbers has the same ids in every run.

/** Numbers from 0 to 1; undefined: the process has better ones. */
type Random = (() => number) | undefined;

/** `<name>-<12 hex digits>`, whatever other clients are called; without a name `<host>-<pid>-<12 hex digits>`. */
export function newClientId(name = `${host()}-${String(process.pid)}`, random?: Random): string {
  return `${name}-${hexDigits(12, random)}`;
}

/** Makes the owners of a client, `<clientId>:<n>`, each never used before. */
function ownersOf(clientId: string): () => string {
  let lastNumber = 0;
  return () => `${clientId}:${String(++lastNumber)}`;
}

/** So many random hex digits, an even number. */
export function hexDigits(count: number, random?: Random): string {
  const bytes = random
    ? Buffer.from(Array.from({ length: count / 2 }, () => Math.floor(random() * 256)))
    : randomBytes(count / 2);
  return bytes.toString('hex');
}

function host(): string {
  try {
    return hostname();
  } catch {
    return 'unknown'; // not allowed, as by Deno without --allow-sys
  }
}

// Runs code as one owner. A lock that it still holds when it ends was forgotten: a `warning` tells of it, and it is released.

export async function runAsOneOwner<T>(fn: () => T | Promise<T>, warnings: Warnings): Promise<T> {
  const scope = new Scope(currentScope(), true);
  try {
    return await scope.run(fn);
  } finally {
    await releaseForgotten(scope, warnings);
  }
}

async function releaseForgotten(scope: Scope, warnings: Warnings): Promise<void> {
  const revocations = new Set<unknown>();
  await Promise.all(
    scope.end().map(async (hold) => {
      const { lockName, ownerId } = hold;
      const remedy = hold.isUnlockable ? 'unlock it' : 'release its hold';
      const error = new LockLostError(`lock "${lockName}" was released because its run ended`, {
        lockName,
        lossReason: 'closed',
      });
      revocations.add(error);
      try {
        await hold.revoke(error);
      } catch (loss) {
        // It was lost before, and that was told: nobody forgot to unlock it. But the members of a MultiLock are lost with the first of them.
        if (!(loss instanceof LockLostError && revocations.has(loss.cause))) return;
      }
      const message = `a run ended while it still held lock "${lockName}", which is given up now: ${remedy} before the run ends`;
      warnings.warn('forgotten unlock', lockName, message, ownerId);
    }),
  );
}
