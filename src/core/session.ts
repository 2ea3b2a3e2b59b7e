// What the locks of one Holdfast share: the connection, timeouts and events, and all holds and acquisitions.

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
import type { HeldLock } from '../api/description.js';
import { patientWait, type Wait, type WaitIs } from '../api/options.js';
import type { Events } from '../api/events.js';
import { type Conflicting, retry, Undecided } from './retry.js';
import { Cleanup, ReleasedOwners } from './cleanup.js';
import { type Clock, PROCESS_CLOCK, PROCESS_RANDOM, type TimeLimit } from '../runtime/clock.js';
import { inTurn } from '../runtime/node.js';
import { type Due, Schedule } from '../runtime/schedule.js';
import type { RedisClient } from '../redis/client.js';
import { isPassing, isReply } from '../redis/failure.js';
import type { Surroundings } from '../redis/session.js';
import {
  type Call,
  type Ending,
  WaitEnded,
  WaitLimit,
  type WaitLimitOptions,
} from '../runtime/wait-limit.js';
import { Warnings } from './events.js';
import { HoldWatch } from './hold-watch.js';
import { lockLost, type LostLock, noAnswer, redisUnavailable } from './messages.js';
import { currentScope, Scope } from '../scopes/scope.js';

/** How many releases a closing client sends at a time. */
const CLOSE_CONCURRENCY = 64;

/** How often calls are looked at that have no timer of their own, in milliseconds. */
export const LOOK_AT_CALLS_EVERY_MS = 500;

export interface SessionOptions {
  /** Identifies this client on the server, as the first half of every owner. Unique. */
  clientId: string;
  lockWatchdogTimeoutMs: number;
  commandTimeoutMs: number;
  /** The client's own `wait`; undefined: it has none. */
  wait?: Wait | undefined;
  /** When a hold counts as long, in milliseconds; undefined: never. */
  longHoldMs?: number | undefined;
  /** Whether holds are found whose object is gone without a release. */
  tracesHolds?: boolean;
  /** The client's schedule. Another session may share it. */
  schedule?: Schedule;
  /** Makes the client's owners. Another session may share it. */
  newOwnerId?: () => string;
}

/** What locks need to know about a connection. */
export type Reachable = Pick<RedisClient, 'isReady' | 'whenReady' | 'lastError'> &
  Partial<Pick<RedisClient, 'opening' | 'refusals' | 'hasSentinels'>> & {
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
  /** The client's own `wait`; undefined: it has none. */
  readonly wait: Wait | undefined;
  /** How long `acquire()` and the like wait if the call sets no `wait`. */
  readonly defaultWait: Wait;
  readonly events: Events;
  readonly warnings: Warnings;
  readonly longHoldMs: number | undefined;
  readonly tracesHolds: boolean;
  /** undefined: forgotten holds are not looked for. */
  readonly holdWatch: HoldWatch | undefined;
  readonly connection: Reachable;
  readonly cleanup: Cleanup;
  readonly anonymous: AnonymousHolds = new AnonymousHolds();
  /** The timer shared by deadlines, renewal rounds and the time limits of releases. */
  readonly schedule: Schedule;
  /** The grants that are held, or whose release is not confirmed yet. */
  readonly grants: Grants = new Grants();
  /** The holds of other clients' locks that are members of this client's MultiLocks. */
  readonly memberHolds: Set<MemberHold> = new Set<MemberHold>();
  /** All acquisitions that are under way. */
  readonly acquisitions: Set<Call> = new Set<Call>();
  /** How many calls wait for each lock, because another owner has it. */
  readonly waits: Map<string, number> = new Map<string, number>();
  #lastEvent = 0;
  /** The limit of calls that only closing the client ends. */
  readonly untilClosed: TimeLimit;
  readonly #closeConcurrency: number;
  #isClosed = false;

  /** `closeConcurrency`: how many holds a close releases at a time. */
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
    this.newOwnerId = options.newOwnerId ?? ownersOf(options.clientId, clock);
    this.lockWatchdogTimeoutMs = options.lockWatchdogTimeoutMs;
    this.commandTimeoutMs = options.commandTimeoutMs;
    this.wait = options.wait;
    this.defaultWait = options.wait ?? patientWait(options.lockWatchdogTimeoutMs);
    this.schedule = options.schedule ?? new Schedule(clock);
    this.connection = connection;
    const released = connection.hasSentinels
      ? new ReleasedOwners(clock, options.lockWatchdogTimeoutMs)
      : undefined;
    this.cleanup = new Cleanup(() => connection.isReady, released, clock);
    this.events = events;
    this.warnings = new Warnings(events);
    this.longHoldMs = options.longHoldMs;
    this.tracesHolds = options.tracesHolds ?? false;
    this.holdWatch = HoldWatch.of(this, this.schedule, this.warnings);
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

  /** An id for events that belong together: those of a hold, or of a wait. */
  newEventId(): string {
    return `${this.clientId}#${String(++this.#lastEvent)}`;
  }

  /** A call begins to wait for a lock. Returns what to call when it no longer does. */
  beginWait(lockId: string): () => void {
    const add = (more: number): void => {
      const count = (this.waits.get(lockId) ?? 0) + more;
      if (count > 0) this.waits.set(lockId, count);
      else this.waits.delete(lockId);
    };
    add(1);
    return () => {
      add(-1);
    };
  }

  /** Has all calls under way looked at, now and then, until there are none: one timer for many short calls. */
  lookAtCalls(): void {
    if (!this.#look.scheduled) this.schedule.within(this.#look, LOOK_AT_CALLS_EVERY_MS);
  }

  readonly #look: Due = {
    scheduled: undefined,
    due: () => {
      for (const call of [...this.acquisitions]) call.look?.();
      if (this.acquisitions.size > 0) this.lookAtCalls();
    },
  };

  assertOpen(lockName: string): void {
    if (this.#isClosed) throw this.closedError(lockName);
  }

  closedError(lockName?: string): ClosedError {
    const which = lockName === undefined ? '' : `lock "${lockName}": `;
    return new ClosedError(`${which}the client is closed`, { lockName });
  }

  /** A grant of this lock that this client may rely on, if there is one. */
  grantOf(lockId: string): SessionGrant | undefined {
    return this.grants.of(lockId).find((grant) => grant.remaining() > 0);
  }

  /** The error if Redis gave no usable answer within `limitMs`: it was silent or unreachable, or refused every attempt. */
  unanswered(
    lockName: string | undefined,
    what: string,
    limitMs: number,
    lastError?: Error,
    waitIs: WaitIs = 'given',
  ): HoldfastError {
    const { opening } = this.connection;
    // A redirection says nothing of the node that it led to.
    const isTold = lastError && !isPassing(lastError);
    const cause = isTold ? lastError : (opening ?? lastError);
    const isRefused = isReply(this.connection.lastError ?? cause);
    return this.unavailable(lockName, `${what}: ${noAnswer(isRefused, limitMs, waitIs)}`, cause);
  }

  /** The error if Redis granted a lock but its answer took longer than the lease. */
  tooLate(lockName: string, leaseMs: number): HoldfastError {
    const lease = `the lease of ${String(leaseMs)} ms`;
    return this.unavailable(lockName, `not acquired: Redis took longer to answer than ${lease}`);
  }

  /** The error if Redis could not be asked about a lock. `what`: what is not known, or not done. */
  unavailable(lockName: string | undefined, what: string, cause?: Error): HoldfastError {
    if (cause instanceof Undecided) return cause.told;
    // The connection's own error says more than "the command was lost with the connection".
    return redisUnavailable(lockName, what, this.connection.lastError ?? cause);
  }

  /** Runs an operation, bounded by `commandTimeout` unless `options` say otherwise. */
  async bounded<T>(
    lockName: string | undefined,
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

  /** Sends a request that must not be repeated, since a repeat might affect a holder that came later. */
  askOnce<T>(lock: Conflicting, what: string, request: () => Promise<T>): Promise<T> {
    return this.#untilAnswered(lock, what, false, (_, isRepeat, lastError) => {
      if (!isRepeat) return request();
      const lost = `${what}: the connection was lost before the answer came`;
      throw this.unavailable(lock.name, lost, lastError);
    });
  }

  /** Sends a query about a lock until it is answered, or Redis is known to be down. */
  ask<T>(
    lock: Conflicting,
    question: (limit: TimeLimit) => Promise<T>,
    what = 'not queried',
  ): Promise<T> {
    return this.#untilAnswered(lock, what, true, question);
  }

  /** Bounded by `commandTimeout`; closing the client ends it earlier. */
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
   * Ends all waiting calls, releases everything held, and removes leftover owners. A server that is down has `commandTimeout` to come
   * back. `others`: other work that may leave owners behind; it is awaited before the last clean-up.
   */
  async close(others?: Promise<void>): Promise<void> {
    this.#isClosed = true;
    this.#endCalls('closed');
    const limit = pLimit(this.#closeConcurrency);
    const grants = [...this.grants];
    const releases = grants.map((grant) => {
      if (grant.isIdle) {
        grant.letGo(); // to the clean-up, which is awaited below
        return Promise.resolve();
      }
      // Without a hold nobody can lose it: its release is under way, and finds out about the lock by itself; or the waiter that was handed
      // the lock, and whose call has just ended, gives it up.
      if (grant.holdCount === 0) return grant.whenSettled();
      grant.lose('closed');
      return limit(() => this.#release(grant));
    });
    for (const hold of this.memberHolds) releases.push(hold.revoke(lockLost(hold, 'closed')));
    // Within this turn of the event loop the ended calls give up their places and leave their owners to the clean-up.
    releases.push(new Promise(setImmediate)); // from node:timers, since a test may fake the global one
    if (others) releases.push(others);
    const waitLimit = new WaitLimit({ clock: this.clock, limitMs: this.commandTimeoutMs });
    try {
      await waitLimit.within(Promise.allSettled(releases));
    } catch {
      // Redis does not answer: the leases end by themselves.
      limit.clearQueue();
      this.#endCalls('timeout');
    }
    // Even without time left, since this is what ends the retries.
    await this.cleanup.close(waitLimit).catch(() => undefined);
    waitLimit.dispose();
  }

  /** There is a new connection; `isAnother`: it may be to another server. */
  readonly connected = (isAnother: boolean): void => {
    if (isAnother) this.moved();
    this.cleanup.connected(isAnother);
  };

  /** Another server may have locks of this client by now. */
  readonly moved = (): void => {
    for (const grant of this.grants) grant.handOverAgain();
  };

  #endCalls(ending: Ending): void {
    for (const call of [...this.acquisitions]) call.end(ending);
  }

  /** Releases a grant that the close has ended. Its callers know of the loss, so the outcome of the release is not reported. */
  async #release(grant: SessionGrant): Promise<void> {
    const { name } = grant.lock;
    const untilAnswered = (waitLimit: WaitLimit): Promise<boolean> =>
      retry(this.connection, waitLimit, { name }, () => grant.giveBack());
    const options = { registry: this.acquisitions };
    await this.bounded(name, 'not known to be released', untilAnswered, options);
  }
}

/** A grant as the session sees it. */
export interface SessionGrant {
  readonly lock: { readonly id: string; readonly name: string };
  readonly ownerId: string;
  readonly holdCount: number;
  readonly isReleased: boolean;
  /** Whether it is kept without a hold. */
  readonly isIdle: boolean;
  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  readonly isShared: boolean;
  readonly heldForMs: number;
  readonly seen: SeenHolder;
  /** Its holds, as `holdfast.held()` shows them. */
  readonly described: readonly HeldLock[];
  /** For how many more milliseconds this process may rely on it. */
  remaining(): number;
  /** How many of its holds are shared, or how many are not. */
  countOf(isShared: boolean): number;
  lose(lossReason: LossReason): LockLostError;
  /** Ends its keeping. */
  letGo(): void;
  /** Resolves when the grant, which has no hold, is given up, whether its release succeeded or failed. */
  whenSettled(): Promise<void>;
  /** Releases it on the server, whatever its local state. */
  giveBack(): Promise<boolean>;
  /** Another server may have taken over, without the hand-overs that led to it: they are sent again. */
  handOverAgain(): void;
}

/** A hold of another client's lock that is a member of a MultiLock of this client. */
export interface MemberHold extends LostLock {
  revoke(error: LockLostError): Promise<void>;
}

/** The grants of one client, by lock. A lock has several at a time if it is shared, or while an earlier one is being released. */
class Grants implements Iterable<SessionGrant> {
  /** Most locks have one grant, and a set for each would take much memory. */
  readonly #ofLock = new Map<string, SessionGrant | Set<SessionGrant>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many of them are kept without a hold. */
  get idleCount(): number {
    let count = 0;
    for (const grant of this) if (grant.isIdle) count++;
    return count;
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

// The id of a client, and its owners. They name host and process, so that "held by …" in a log says where to look. Both are unique; but a
// client whose library brings its own random numbers is simulated, and has the same ids in every run.

/** A source of numbers from 0 to 1; undefined: the process's cryptographic one. */
type Random = (() => number) | undefined;

/** How many characters of the host's name a client's id has: the end of a pod's name tells pods apart. */
const HOST_CHARACTERS = 32;

/** `<text>-<host>-<pid>-<12 hex digits>`; the text is the user's, and may be left out. */
export function newClientId(text?: string, random?: Random): string {
  const where = random ? 'simulated' : `${host()}-${String(process.pid)}`;
  return `${text === undefined ? '' : `${text}-`}${where}-${hexDigits(12, random)}`;
}

/**
 * Makes the owners of a client, `<clientId>:<n>`, each never used before. The number tells when it is made, which is when the lock is asked for:
 * it is the client's time in microseconds since 1970, in the second half of a millisecond, or the next number if that was used. A number in
 * the first half would be that of a call, whatever try of it got the lock.
 */
function ownersOf(clientId: string, clock: Clock): () => string {
  let lastNumber = 0;
  return () => {
    lastNumber = Math.max(lastNumber + 1, Math.floor(clock.wallMs()) * 1_000 + 500);
    return `${clientId}:${String(lastNumber)}`;
  };
}

/** When an owner has asked for its lock, by its client's clock; undefined: its number does not tell. */
export function startOfOwner(ownerId: string): Date | undefined {
  const [, number] = /:(\d{16})$/.exec(ownerId) ?? [];
  return number === undefined ? undefined : new Date(Math.floor(Number(number) / 1_000));
}

/** The same, if its client makes a number for each try: then a lock that the try has taken is held since. */
export function startOfTry(ownerId: string): Date | undefined {
  return /[5-9]\d\d$/.test(ownerId) ? startOfOwner(ownerId) : undefined;
}

/** `count` random hex digits; `count` must be even. */
export function hexDigits(count: number, random?: Random): string {
  const bytes = random
    ? Buffer.from(Array.from({ length: count / 2 }, () => Math.floor(random() * 256)))
    : randomBytes(count / 2);
  return bytes.toString('hex');
}

function host(): string {
  try {
    return Array.from(hostname()).slice(-HOST_CHARACTERS).join('');
  } catch {
    return 'unknown'; // not permitted, as in Deno without --allow-sys
  }
}

// Runs code as one owner. Locks that it still holds at the end are released, with a `warning` about the forgotten unlock.

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
        // The lock was lost before, which was reported: then no unlock was forgotten. Except that a MultiLock's members are lost here,
        // together with the first of them.
        if (!(loss instanceof LockLostError && revocations.has(loss.cause))) return;
      }
      const message = `a run ended while it still held lock "${lockName}", which is given up now: ${remedy} before the run ends`;
      warnings.warn('forgotten unlock', lockName, message, ownerId);
    }),
  );
}
