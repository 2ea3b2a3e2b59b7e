// What a server answers about a lock, whatever kind of lock it is.

import type { LockLostError, LossReason, SeenHolder } from '../api/errors.js';
import { elapsedMs, type Instant, now, type TimeLimit } from '../runtime/clock.js';
import type { RedisClient } from '../redis/client.js';
import type { LastAnswer, Seniority } from '../waiting/line.js';
import type { Scope } from '../scopes/scope.js';
import type { Hold } from '../api/lock.js';
import type { HoldInScope } from '../scopes/anonymous.js';

/** What a try to acquire a lock found. */
export type AcquireReply = Acquired | HandedOver | HeldReply;

/** The lock is ours. */
interface Acquired {
  readonly outcome: 'acquired';
  /** Since when the lease counts, if not since the try was sent. */
  readonly sentAt?: Instant;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
}

/** Somebody else has the lock. */
export interface HeldReply extends Readonly<SeenHolder> {
  readonly outcome: 'held';
  /** When to look again, in milliseconds, where that is not when the holder's lease ends. */
  readonly retryInMs?: number | undefined;
}

/** The holder before us gave the lock to us, while we waited. */
export interface HandedOver {
  readonly outcome: 'handed over';
  /** Until when the lock may be relied on with the lease that it was handed over with. */
  readonly deadline: Deadline;
  /** Sets the lease that was asked for, where that is not what a renewal would set anyway. */
  readonly confirm: (() => Promise<KeepReply>) | undefined;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
}

/** Whether the lock is ours now, or was handed over to us. */
export function isAcquired({ outcome }: { readonly outcome: AcquireReply['outcome'] }): boolean {
  return outcome !== 'held';
}

/** What the server says of a lock that its caller should hold: it is kept, or how it was lost. */
export type KeepReply = 'kept' | Extract<LossReason, 'taken' | 'deleted' | 'forced'>;

export function isKept(reply: KeepReply): boolean {
  return reply === 'kept';
}

// What a grant, the lock that was granted, and those who hold it or are to have it next know of each other.

/** A grant, as its lock and those who wait for it see it. */
export interface Granted extends Renewable {
  readonly isHeld: boolean;
  readonly holdCount: number;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
  /** The owner and the time that is left, for the error of a caller who is refused the lock because of this grant. */
  readonly seen: SeenHolder;
  renewalLimit: RenewalLimit | undefined;
  /** Milliseconds for which this process may rely on the grant; 0: it is not held any more. */
  remaining(): number;
  /** The caller to whom the lock was handed over does not want it. */
  decline(): void;
}

/** A hold as its grant sees it: whether it wants the lease to be renewed, and how it learns that the grant was lost. */
export interface GrantedHold {
  readonly isWatched: boolean;
  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  readonly isShared?: boolean;
  lost(error: LockLostError): void;
}

/** The waiter of the same client to whom a release hands the lock over. */
export interface NextWaiter {
  /** The lease that it wants, in milliseconds. */
  readonly leaseMs: number;
  /** Whether it may enter only when the hand-over is answered: it needs a fencing token. */
  readonly needsAnswer: boolean;
  /** Sends the release of `ownerId` to `successorId`. It may be repeated. */
  handOver(ownerId: string, successorId: string, limit: TimeLimit): Promise<HandOverReply>;
  /** The hand-over is on its way: until it is answered, nobody in the line tries. */
  expect(): void;
  /** It has the lock: its hold is to begin, or it declines. */
  accept(grant: Granted): void;
  /** The hand-over has failed: it tries to acquire the lock. */
  tryItself(): void;
}

/** What the server says of a hand-over: it is done, perhaps by an earlier copy; or neither of the two owners is there, and why. */
export interface HandOverReply {
  readonly outcome: 'done' | Exclude<KeepReply, 'kept'>;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
}

/** A lock of any kind. */
export interface NamedLock {
  /** The same for the same lock of the same client, whatever object stands for it. */
  readonly id: string;
  /** The name that its caller gave. */
  readonly name: string;
}

/** A lock from which an owner can be removed. */
export interface Removable {
  /** The same for the same lock of the same client, whatever object stands for it. */
  readonly id: string;
  /** Gives up the lock, or a place in line for it; who waits is told. False when this owner does not hold it (any more). */
  release(ownerId: string): Promise<boolean>;
}

/** What a grant needs of the lock that was granted. */
export interface GrantedLock extends Removable, NamedLock {
  /** Whether several owners may hold the lock at a time: a semaphore, or the read half of a read-write lock. (Its halves have one `id`.) */
  readonly isShared?: boolean;
  /** Whether something of the lock may be left on its servers when it was lost to somebody else. */
  readonly leavesRemains?: boolean;
  /**
   * Sets the hold count of a lock that must still be held, and prolongs its lease to at least `leaseMs` from now (0: not
   * at all); or says how it was lost. `limit`: how long its caller will wait. `isShared`: all holds of a read-write lock only read
   * from now on, so that other owners may read beside them.
   */
  reenter(
    ownerId: string,
    holdCount: number,
    leaseMs: number,
    limit: TimeLimit,
    isShared: boolean,
  ): Promise<KeepReply>;
  /** The server has granted the lock to this client. */
  granted?(grant: Granted): void;
  /** This client neither holds the lock as this owner any more, nor waits for it as this owner. */
  forget?(ownerId: string): void;
  /** Who of this client waits for the lock and is handed it over by a release; undefined: nobody, or not by this kind of lock. */
  readonly nextWaiter?: NextWaiter | undefined;
  /** Looks after a grant until `unwatch`: renews it if it is watched, and finds out if it is lost. */
  watch(grant: Granted): void;
  unwatch(grant: Granted): void;
}

// The seam between what all locks share (scopes, holds, grants, the watchdog) and what one kind of lock does on its server or
// servers.

/**
 * One kind of lock, for one name. Each method sends its script once and rejects when no answer came. All of them may be repeated:
 * every outermost acquisition has an owner of its own, and a hold count is the number to be reached, not a difference.
 */
export interface AcquirableLock extends GrantedLock {
  /** Whether each holder is given a fencing token. */
  readonly isFenced?: boolean;
  /** Whether an owner may acquire the lock again while it holds it; left out: it may. */
  readonly isReentrant?: boolean;
  /** How many permits are wanted, of a lock that several may hold. */
  readonly weight?: number;
  /** The ids of the locks that it is made of, if it is made of others. */
  readonly memberIds?: readonly string[];
  /** The key that is the lock, on each server that it is on. */
  readonly keyPlaces?: readonly KeyPlace[];
  /** Whether the servers of the lock can be asked now; left out where its client's own connection tells that. */
  readonly isReachable?: boolean;
  /** Finds out, after a command has met a key of another kind, which key that is and what it holds. */
  keyInTheWay?(): Promise<KeyInTheWay | undefined>;
  /** A new owner, never used before. */
  readonly newOwnerId: () => string;
  /** Whether this client holds the lock already, or one of its callers waits for it: then no try is sent at once. */
  readonly isInUseHere?: boolean;
  /** The waiter for a caller who wants the lock. It tries as an owner that `newOwnerId` makes; for some kinds each try needs a new one. */
  waiter(newOwnerId: () => string, request: LockRequest): Waiter;
  /**
   * Sends the one command of a first try; undefined, or left out: a try takes more than one command, and nothing was sent.
   *
   * @param limit - how long the caller will wait
   */
  tryAtOnce?(ownerId: string, leaseMs: number, limit: TimeLimit): Promise<AcquireReply> | undefined;
}

/** What stands where a key of a lock should be. */
export interface KeyInTheWay {
  readonly key: string;
  /** What should be there, in words: "a lock". */
  readonly expected: string;
  /** As the server's `TYPE` says it. */
  readonly type: string;
  /** The master that has the key, as `host:port`, where there are several. */
  readonly node?: string | undefined;
}

/** A key, and the way to its server. */
export interface KeyPlace {
  readonly key: string;
  readonly connection: Pick<RedisClient, 'isReady' | 'place' | 'homeOf'>;
}

/** An acquirable lock with all else that callers may ask of a lock. */
export interface LockBackend extends AcquirableLock {
  /** What kind of lock it is, for people. */
  readonly kind: string;
  /**
   * Frees the lock whoever holds it, and leaves a note for its holders on the server, for at most `forcedNoteTtlMs`. Returns the owners that were
   * forced out.
   */
  forceUnlock(forcedNoteTtlMs: number): Promise<readonly string[]>;
  /** How often this owner holds the lock; 0: not at all. */
  holdCount(ownerId: string): Promise<number>;
  isLocked(): Promise<boolean>;
  /** How long the lock's lease still lasts, in milliseconds; -2: not locked, -1: no expiry. */
  remainTimeToLive(): Promise<number>;
}

// One caller in a line: how an acquisition tries to get its lock, and where it waits between the tries.

export interface Waiter {
  readonly ownerId: string;
  /**
   * Tries to acquire the lock. It may be repeated: the owner is never used for anything else.
   *
   * @param limit - how long the caller will wait; left out: for ever
   */
  try(limit?: TimeLimit): Promise<AcquireReply>;
  /** The grant is made that its latest try was answered with. */
  won?(grant: Granted): void;
  /** Waits in line without asking, if this client has the lock or others of this client wait; returns what is known of the holder. */
  queue?(): HeldReply | undefined;
  /** Takes, without asking, what was handed over while it waited; undefined: nothing that may be relied on. */
  claim?(): HandedOver | Granted | undefined;
  /** A try, begun at `triedAtMs` (monotonic), found that somebody else has the lock: waits in line, at the same place as before. */
  wait(seen: HeldReply, triedAtMs: number): void;
  /** What those of this client who wait for the lock know of it; undefined: it does not wait. */
  readonly lastAnswer?: LastAnswer | undefined;
  /** Sees to it that the server is asked, now unless that was done since `sinceMs` (monotonic): once for all who wait. */
  look(sinceMs: number): void;
  /** Whether it is its turn to try: it stands in no line, or was woken. */
  readonly mayTry: boolean;
  /** Resolves when `mayTry` is true. */
  readonly woken: Promise<void>;
  /**
   * Leaves the line: the lock was acquired, for `leaseMs`, or it is not wanted any more. Returns whether something of the
   * waiter may be left on the server.
   */
  leave(leaseMs?: number): boolean;
}

// What one call asks of one lock, and who asks it from where.

/** What a MultiLock asks of its members, besides what its caller asked for. */
export interface MemberTerms extends Seniority {
  /** Bounds a single attempt, besides `commandTimeout`. */
  readonly attemptMs?: number | undefined;
}

export interface LockRequest extends MemberTerms {
  /** How long to wait if the lock is not free; Infinity: for ever, 0: not at all. */
  readonly waitMs: number;
  readonly leaseMs: number;
  /** Whether the watchdog will renew the lease. */
  readonly isWatched: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Tells in which hold a call is nested that it waits for, and what to do; undefined: it does not wait for itself any more. */
export type SelfWait = () => { readonly ownerId: string; readonly why: string } | undefined;

export interface CallersRequest extends LockRequest {
  readonly origin: HoldOrigin;
  /** Whether other owners may hold the lock beside the caller (a reader, a permit). */
  readonly isShared: boolean;
  /** The innermost scope of the code that called. */
  readonly position: Scope | undefined;
  /** The scope that the call opens, if it is `withLock`; undefined: the call acts for the innermost run. */
  readonly ownScope: Scope | undefined;
  /** undefined: nothing says that the call is nested in a hold that it cannot re-enter. */
  readonly selfWait: SelfWait | undefined;
}

/** What a hold keeps of the request that it was made for. */
export type HoldTerms = Pick<CallersRequest, 'origin' | 'isShared' | 'isWatched'>;

// What the watchdog looks after, how leases of one kind are renewed, and what a renewal says.

/** What the watchdog looks after: a grant, or a place in line. */
export interface Renewable<Reply = KeepReply> {
  readonly ownerId: string;
  /** Whether the watchdog prolongs the lease; if not, it only looks whether the lease is still there. */
  readonly isWatched: boolean;
  /**
   * Finds out, before anything else is done with the lease, whether it is over while somebody relies on it; and schedules its end, if
   * that comes before the next round.
   */
  checkEnd?(at: Instant): void;
  /**
   * How many milliseconds before `at`, by default now, the command was sent that confirmed the lease last; -1: the lease is not relied
   * on any more.
   */
  ageMs(at?: Instant): number;
  /** The server that has answered, or is about to, may be another one than the one that was told last. */
  serverMayHaveChanged?(): void;
  /** A renewal by `leaseMs`, 0 for a mere look, is on its way. */
  renewing?(leaseMs: number): void;
  /** The server's answer to a renewal; an unanswered one is never reported. */
  renewed(reply: Reply, renewal: Renewal): void;
}

/** A renewal that was answered; one for all leases of its batch. */
export interface Renewal {
  readonly sentAt: Instant;
  /** What it prolonged leases by, in milliseconds; 0: it was a mere look. */
  readonly leaseMs: number;
  /** Until when the leases that it prolonged may be relied on. */
  readonly deadline: Deadline;
  readonly answeredAt: Instant;
}

/** How often one lease may be prolonged, where that is limited. */
export interface RenewalLimit {
  /** Whether the lease may be prolonged now; if not, the watchdog only looks whether it is still there. */
  readonly isDue: boolean;
  /** A renewal that was sent at `sentAt` was answered. */
  renewed(sentAt: Instant): void;
}

/** A lease under watch, and what its renewer needs to find it on the server. */
export interface Watched<Target> {
  readonly lease: Renewable<unknown>;
  readonly target: Target;
}

/** How leases of one kind are renewed. */
export interface Renewer<Target> {
  readonly kind: string;
  /** What may go into one script call has the same batch key. */
  batchKey(target: Target): string;
  /** Sends one batch, with a lease of 0 for a mere look; the answers are in the same order. */
  renew(batch: readonly Watched<Target>[], leaseMs: number): Promise<readonly unknown[]>;
}

// A hold as the library itself sees it: how it came to be, and a release that no caller waits for.

/** How a hold came to be, and so what may undo it. */
export type HoldOrigin = 'lock' | 'acquire' | 'withLock';

/** A hold as the lock that gave it out sees it. */
export interface OwnHold extends Hold {
  /** What `unlock()` may undo of it: itself, or those of a MultiLock's members, in their order. */
  readonly members: readonly HoldInScope[];
  /** Releases the lock; that Redis could not be reached is an `error` event, no rejection: what the lock guarded is done. */
  releaseQuietly(): Promise<void>;
}

// Until when a process may rely on a lease that a server confirmed.

/**
 * The end of a confirmed lease as the client sees it. The lease counts from before the command was sent, so the deadline
 * comes before the server's lease ends, whatever the network did; the margin covers clocks that run at different speeds.
 */
export interface Deadline {
  readonly since: Instant;
  readonly usableMs: number;
}

/** Drift margin as in Redis' description of Redlock: 1 % of the lease and 2 ms, at most half the lease. */
function driftMarginMs(leaseMs: number): number {
  return Math.min(leaseMs * 0.01 + 2, leaseMs / 2);
}

/** The server confirmed a lease of `leaseMs` to a command that was sent at `sentAt`, or later. */
export function deadlineOf(sentAt: Instant, leaseMs: number): Deadline {
  return { since: sentAt, usableMs: leaseMs - driftMarginMs(leaseMs) };
}

/** Milliseconds that are left at `at`, by default now; 0 or less when the deadline has passed. */
export function leftMs(deadline: Deadline, at?: Instant): number {
  return deadline.usableMs - elapsedMs(deadline.since, at);
}

/** Of two deadlines the one that comes first. */
export function earlier(one: Deadline, other: Deadline): Deadline {
  return later(one, other) === one ? other : one;
}

/** A confirmation never shortens a lease: of two deadlines the later one counts. */
export function later(
  one: Deadline,
  other: Deadline,
  at: Instant = now(one.since.clock),
): Deadline {
  return leftMs(other, at) > leftMs(one, at) ? other : one;
}
