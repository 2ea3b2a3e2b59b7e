// The types that all kinds of locks share. First: what a server answers about a lock.

import type { HeldLock } from '../api/description.js';
import type { HolderState, LockLostError, LossReason, SeenHolder } from '../api/errors.js';
import { type Clock, elapsedMs, type Instant, now, type TimeLimit } from '../runtime/clock.js';
import type { RedisClient } from '../redis/client.js';
import type { LastAnswer, Seniority } from '../waiting/line.js';
import type { Scope } from '../scopes/scope.js';
import type { Hold } from '../api/lock.js';
import type { WaitIs } from '../api/options.js';
import type { HoldInScope } from '../scopes/anonymous.js';
import type { WatchedHold } from './hold-watch.js';

/** The outcome of a try to acquire a lock. */
export type AcquireReply = Acquired | HandedOver | HeldReply;

/** The caller has the lock. */
interface Acquired {
  readonly outcome: 'acquired';
  /** When the lease began; left out: when the try was sent. */
  readonly sentAt?: Instant;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
  /** Set if the client may keep the lock after its last hold: the grant then has the lease of this, not the one asked for. */
  readonly keepable?: Keepable | undefined;
}

/** Another owner has the lock. */
export interface HeldReply extends Readonly<SeenHolder> {
  readonly outcome: 'held';
  /** Whether its client keeps the lock, perhaps without using it, and was asked to let go. */
  readonly isAskedFor?: boolean | undefined;
  /** Nobody is known to hold the lock: this client has just had it, and lets others pass for a moment. */
  readonly letsPass?: boolean | undefined;
  /** When to try again, in milliseconds; left out: when the holder's lease ends. */
  readonly retryInMs?: number | undefined;
}

/** The count of a hold that has ended here, and that another process may adopt. */
export const EXPORTED_COUNT = -3;

/** How an owner has a lock, by a count that is not that of its holds. `heardBy`: as scripts answer "held", how many heard our wish, or the count. */
export function stateOf(heardBy: number | undefined): HolderState | undefined {
  if (heardBy === undefined) return undefined;
  if (heardBy === EXPORTED_COUNT) return 'exported';
  return heardBy === -2 ? 'released' : 'kept';
}

/** The previous holder handed the lock over to this caller while it waited. */
export interface HandedOver {
  readonly outcome: 'handed over';
  /** Until when the lock may be relied on with the lease that it was handed over with. */
  readonly deadline: Deadline;
  /** Sets the lease that was asked for; undefined: a renewal sets it anyway. */
  readonly confirm: (() => Promise<KeepReply>) | undefined;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
}

/** Whether the caller has the lock: acquired, or handed over. */
export function isAcquired({ outcome }: { readonly outcome: AcquireReply['outcome'] }): boolean {
  return outcome !== 'held';
}

/** The server's answer about a lock that the caller should hold: it is kept, or how it was lost. */
export type KeepReply = 'kept' | Extract<LossReason, 'taken' | 'deleted' | 'forced'>;

export function isKept(reply: KeepReply): boolean {
  return reply === 'kept';
}

// How a grant, its lock, its holds and the next waiter see each other.

/** A grant as its lock and the waiters see it. */
export interface Granted extends Renewable {
  readonly isHeld: boolean;
  /** Whether a hold may begin on it without asking the server. */
  readonly isUsable: boolean;
  readonly holdCount: number;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
  /** The owner and the remaining time, for the error of a caller that did not get the lock because of this grant. */
  readonly seen: SeenHolder;
  renewalLimit: RenewalLimit | undefined;
  /** For how many more milliseconds this process may rely on the grant; 0: it is no longer held. */
  remaining(): number;
  /** The waiter that was handed the lock no longer wants it. */
  decline(): void;
}

/** A grant that a client may keep after its last hold, as its keeper sees it. */
export interface KeepableGrant extends Granted {
  /** When the command that last confirmed the grant was sent. */
  readonly confirmedAt: Instant;
  /** Whether its client may keep it after its last hold. */
  readonly isKeepable: boolean;
  /** Whether it is kept without a hold. */
  readonly isIdle: boolean;
  /** As an idle grant: gets its next hold, which the caller adds at once. False if the server must be asked instead. */
  take(): boolean;
  /** Ends the keeping: an idle grant is released; any other is from now on like those that are not kept. */
  letGo(): void;
  lose(lossReason: LossReason): LockLostError;
}

/** The server's word that the client may keep the lock. */
export interface Keepable {
  /** The lease that it has granted, in milliseconds. */
  readonly leaseMs: number;
  /** Begins to see to a grant of that lock. */
  by(grant: KeepableGrant): Keeping;
}

/** What a grant that may be kept asks of the keeper. */
export interface Keeping {
  /** For how long the lock is kept without a hold, and how old the last proof may be when a hold begins, in milliseconds. */
  readonly keepMs: number;
  /** The lease of a grant that may be kept, in milliseconds. */
  readonly leaseMs: number;
  /** Whether the keeper hears other clients' wishes, and the grant has not been kept for long enough. */
  mayGoOn(at: Instant): boolean;
  begin(): void;
  /** A hold begins: has the grant proved, if its last proof is old. */
  holdBegins(at: Instant): void;
  /** The last hold has ended, and the grant is kept. */
  idles(at: Instant): void;
  end(): void;
}

/** A hold as its grant sees it. */
export interface GrantedHold {
  /** Whether the hold wants the lease to be renewed. */
  readonly isWatched: boolean;
  /** For how long the lock stays taken at least, counted from when the hold began; in milliseconds. */
  readonly atLeastMs: number;
  readonly holdId: string;
  /** As `holdfast.held()` shows it. */
  readonly described: HeldLock;
  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  readonly isShared?: boolean;
  /** The grant was lost. */
  lost(error: LockLostError): void;
}

/** The waiter of the same client to which a release hands the lock over. */
export interface NextWaiter {
  /** The lease that the waiter wants, in milliseconds. */
  readonly leaseMs: number;
  /** Whether the waiter must not enter before the hand-over is answered, because it needs a fencing token. */
  readonly needsAnswer: boolean;
  /** Whether it takes a grant that its client keeps. */
  readonly takesKept: boolean;
  /** Sends the command that releases the lock of `ownerId` to `successorId`. May be repeated. */
  handOver(ownerId: string, successorId: string, limit: TimeLimit): Promise<HandOverReply>;
  /** The hand-over was sent: until it is answered, no waiter in the line tries. */
  expect(): void;
  /** The waiter has the lock: it begins a hold, or declines the grant. */
  accept(grant: Granted): void;
  /** The hand-over has failed: the waiter tries to acquire the lock. */
  tryItself(): void;
}

/** The server's answer to a hand-over: done, perhaps by an earlier copy of the command; or neither owner is there, and why. */
export interface HandOverReply {
  readonly outcome: 'done' | Exclude<KeepReply, 'kept'>;
  /** The fencing token, if the lock is fenced. */
  readonly token?: bigint | undefined;
}

/** One text for several, and for no others: a name may have any characters, also those of an id. */
export function idOf(...parts: readonly string[]): string {
  return JSON.stringify(parts);
}

/** A lock of any kind. */
export interface NamedLock {
  /**
   * Equal for all objects that are the same lock of the same client, and for no others: it begins with the kind and the client, which have
   * no blanks, and ends with the key; or `idOf` made it.
   */
  readonly id: string;
  /** The name that the caller gave. */
  readonly name: string;
}

/** A lock from which an owner can be removed. */
export interface Removable {
  /** Equal for all objects that are the same lock of the same client. */
  readonly id: string;
  /** Gives up the lock, or a place in line for it, and notifies the waiters. False if this owner does not hold it (any more). */
  release(ownerId: string): Promise<boolean>;
}

/** Gives up the lock, but keeps it taken until `untilMs` (monotonic). False if this owner does not hold it (any more). */
export function releaseAt(
  lock: Pick<GrantedLock, 'release' | 'releaseIn'>,
  ownerId: string,
  untilMs: number,
  clock: Clock,
): Promise<boolean> {
  const restMs = Math.ceil(untilMs - clock.nowMs());
  return restMs > 0 ? lock.releaseIn(ownerId, restMs) : lock.release(ownerId);
}

/** How a hold of a lock on one server passes to another process. */
export interface Transfer {
  readonly terms: TransferTerms;
  readonly at: KeyPlace;
  /** Replaces the owner of an exported hold by one of this client. May be repeated. */
  adopt(
    exportedId: string,
    ownerId: string,
    leaseMs: number,
    limit: TimeLimit | undefined,
  ): Promise<HandOverReply>;
}

/** What another process needs to make the same lock, besides its kind and name. */
export interface TransferTerms {
  readonly keyPrefix: string;
  /** How long a fenced lock's tokens are remembered, in milliseconds; 0: for ever. */
  readonly tokenTtlMs?: number | undefined;
  /** The permits of a semaphore, and how many of them are held. */
  readonly permits?: { readonly declared: number; readonly held: number } | undefined;
}

/** What the text of an exported hold says. */
export interface ExportedHold extends TransferTerms {
  readonly kind: string;
  readonly name: string;
  readonly ownerId: string;
  /** For how much longer the lock stays taken at least, in milliseconds. */
  readonly restMs: number;
  /** Where its server is, as the exporting client is configured: no password. */
  readonly place: string;
  /** The same in the server's own words; left out: it does not say. */
  readonly home?: string | undefined;
}

/** What a grant needs from its lock. */
export interface GrantedLock extends Removable, NamedLock {
  /** The kind of lock, for messages, metrics and debugging. */
  readonly kind: string;
  /** Whether several owners may hold the lock at a time: a semaphore, or the read half of a read-write lock. (Its halves have one `id`.) */
  readonly isShared?: boolean;
  /** Whether some of its servers may still have the owner after the lock was lost to another owner. */
  readonly leavesRemains?: boolean;
  /**
   * If the owner still holds the lock: sets its hold count and extends its lease to at least `leaseMs` from now (0: does not extend it).
   * Otherwise returns how the lock was lost. `limit`: how long the caller waits. `isShared`: all holds of this owner of a read-write
   * lock only read from now on, so that other owners may read beside them.
   */
  reenter(
    ownerId: string,
    holdCount: number,
    leaseMs: number,
    limit: TimeLimit,
    isShared: boolean,
  ): Promise<KeepReply>;
  /** Releases the lock, but lets it expire `inMs` from now instead of freeing it. It never extends the lease. */
  releaseIn(ownerId: string, inMs: number): Promise<boolean>;
  /** Left out: a hold of this kind of lock cannot pass to another process. */
  readonly transfer?: Transfer;
  /** The server has granted the lock to this client. */
  granted?(grant: KeepableGrant): void;
  /** This client no longer holds the lock, or waits for it, as this owner. */
  forget?(ownerId: string): void;
  /** The waiter of this client to which a release hands the lock over; undefined: none, or this kind of lock does not hand over. */
  readonly nextWaiter?: NextWaiter | undefined;
  /** Whether callers of this client wait for the lock in its line. */
  readonly hasWaiters?: boolean;
  /** Checks a grant regularly until `unwatch`: renews it if it is watched, and detects its loss. */
  watch(grant: Granted): void;
  unwatch(grant: Granted): void;
}

// The interface between what all locks share (scopes, holds, grants, the watchdog) and what each kind of lock does on its servers.

/**
 * One kind of lock, for one name. Each method sends its script once and rejects if no answer comes. All of them may be repeated, because
 * every outermost acquisition has an owner of its own, and hold counts are absolute, not increments.
 */
export interface AcquirableLock extends GrantedLock {
  /** Whether each holder is given a fencing token. */
  readonly isFenced?: boolean;
  /** Whether an owner may acquire the lock again while it holds it; left out: it may. */
  readonly isReentrant?: boolean;
  /** How many permits are wanted, for a lock that several owners may hold. */
  readonly weight?: number;
  /** The ids of its members, if it is made of other locks. */
  readonly memberIds?: readonly string[];
  /** The key of the lock on each of its servers. */
  readonly keyPlaces?: readonly KeyPlace[];
  /** Whether the lock's servers can be asked now; left out: the client's own connection decides. */
  readonly isReachable?: boolean;
  /** After a command met a key of another kind: finds out which key that is and what it holds. */
  keyInTheWay?(): Promise<KeyInTheWay | undefined>;
  /** A new owner, never used before. */
  readonly newOwnerId: () => string;
  /** Whether this client already holds the lock, or one of its callers waits for it: then `tryAtOnce` is not used. */
  readonly isInUseHere?: boolean;
  /** Makes the waiter of one acquisition. It tries with an owner from `newOwnerId`; some kinds need a new owner for each try. */
  waiter(newOwnerId: () => string, request: LockRequest): Waiter;
  /**
   * Sends a first try that is a single command; undefined, or left out: a try takes more than one command, and nothing was sent.
   *
   * @param limit - how long the caller waits
   */
  tryAtOnce?(
    ownerId: string,
    request: LockRequest,
    limit: TimeLimit,
  ): Promise<AcquireReply> | undefined;
  /** Takes the grant that this client has kept, for a request with a lease that is renewed; undefined, or left out: there is none. */
  takeKept?(): KeepableGrant | undefined;
}

/** A key of another kind where a key of a lock should be. */
export interface KeyInTheWay {
  readonly key: string;
  /** What the key should hold, in words: "a lock". */
  readonly expected: string;
  /** The server's answer to `TYPE`. */
  readonly type: string;
  /** What the key holds, in words, as far as that is known. */
  readonly what?: string | undefined;
  /** The master that has the key, as `host:port`, where there are several. */
  readonly node?: string | undefined;
}

/** A key, and the connection to its server. */
export interface KeyPlace {
  readonly key: string;
  readonly connection: Pick<RedisClient, 'isReady' | 'place' | 'database' | 'homeOf'>;
}

/** An acquirable lock with all other operations of the public API. */
export interface LockBackend extends AcquirableLock {
  /**
   * Releases the lock for all its owners, and leaves them a note on the server for at most `forcedNoteTtlMs`. Returns the owners that
   * were forced out.
   */
  forceUnlock(forcedNoteTtlMs: number): Promise<readonly string[]>;
  /** How many holds this owner has; 0: none. */
  holdCount(ownerId: string): Promise<number>;
  isLocked(): Promise<boolean>;
  /** The remaining lease, in milliseconds; -2: not locked, -1: no expiry. */
  remainTimeToLive(): Promise<number>;
}

// A waiter: how an acquisition tries to get its lock, and where it waits between the tries.

export interface Waiter {
  readonly ownerId: string;
  /**
   * Tries to acquire the lock. May be repeated, since the owner is never used for anything else.
   *
   * @param limit - how long the caller waits; left out: for ever
   */
  try(limit?: TimeLimit): Promise<AcquireReply>;
  /** The present owner is nowhere: the next try has an owner of its own. Left out: all tries have one owner, or each has its own anyway. */
  useNewOwner?(): void;
  /** The answer to the latest try has become a grant. */
  won?(grant: Granted): void;
  /** Joins the line without a command if this client has the lock or has waiters for it; then returns what is known of the holder. */
  queue?(): HeldReply | undefined;
  /** Takes a hand-over that came while it waited, without a command; undefined: none that may be relied on. */
  claim?(): HandedOver | Granted | undefined;
  /** A try that began at `triedAtMs` (monotonic) found the lock held: waits in line, at the same place as before. */
  wait(seen: HeldReply, triedAtMs: number): void;
  /** The latest answer that this client's waiters for the lock share; undefined: this waiter is not in line. */
  readonly lastAnswer?: LastAnswer | undefined;
  /** Has the server asked now, once for all waiters, unless it was asked since `sinceMs` (monotonic). */
  look(sinceMs: number): void;
  /** Whether it may try: it is in no line, or was woken. */
  readonly mayTry: boolean;
  /** Resolves when `mayTry` is true. */
  readonly woken: Promise<void>;
  /**
   * Leaves the line: the lock was acquired, for `leaseMs`, or, without it, is no longer wanted. Returns whether the server may still
   * have something of the waiter.
   */
  leave(leaseMs?: number): boolean;
}

// What one call asks of one lock, and where the call comes from.

/** What a MultiLock asks of its members in addition to the caller's request. */
export interface MemberTerms extends Seniority {
  /** Bounds a single attempt, besides `commandTimeout`. */
  readonly attemptMs?: number | undefined;
  /** Whether a failure is not told, since the MultiLock goes on, or tells of its own. */
  readonly isQuiet?: boolean | undefined;
}

export interface LockRequest extends MemberTerms {
  /** How long to wait if the lock is not free; Infinity: for ever, 0: not at all. */
  readonly waitMs: number;
  /** Whether the caller has chosen that, for errors. */
  readonly waitIs: WaitIs;
  readonly leaseMs: number;
  /** Whether the watchdog will renew the lease. */
  readonly isWatched: boolean;
  /** For how long the lock stays taken at least, in milliseconds. 0 for a member of a MultiLock, which sets it once it has all members. */
  readonly atLeastMs: number;
  readonly signal?: AbortSignal | undefined;
  /** A free text of the caller's, for events and messages. */
  readonly label?: string | undefined;
  /** The hold of another process that becomes this one; undefined: an acquisition like any other. */
  readonly adopts?: ExportedHold | undefined;
}

/**
 * Whether the client may keep the lock after this hold. Not with a fixed lease, not if its own callers must wait too, and not as a member of a
 * MultiLock.
 */
export function mayBeKept({
  isWatched,
  atLeastMs,
  attemptMs,
}: Pick<LockRequest, 'isWatched' | 'atLeastMs' | 'attemptMs'>): boolean {
  return isWatched && atLeastMs === 0 && attemptMs === undefined;
}

/** If a call waits for a hold that it is nested in: that hold, and advice for the message. undefined: it does not (any more). */
export type SelfWait = () => { readonly ownerId: string; readonly why: string } | undefined;

export interface CallersRequest extends LockRequest {
  readonly origin: HoldOrigin;
  /** Whether other owners may hold the lock beside the caller (a reader, a permit). */
  readonly isShared: boolean;
  /** The innermost scope of the calling code. */
  readonly position: Scope | undefined;
  /** The scope that `withLock` opens; undefined: another call, which acts for the innermost run. */
  readonly ownScope: Scope | undefined;
  /** undefined: the call is not known to be nested in a hold that it cannot re-enter. */
  selfWait: SelfWait | undefined;
}

/** The part of its request that a hold keeps. */
export type HoldTerms = Pick<
  CallersRequest,
  'origin' | 'isShared' | 'isWatched' | 'atLeastMs' | 'label'
>;

// Renewals by the watchdog.

/** A lease that the watchdog renews or checks: that of a grant, or of a place in line. */
export interface Renewable<Reply = KeepReply> {
  readonly ownerId: string;
  /** Whether the watchdog extends the lease; if not, it only checks that the lease still exists. */
  readonly isWatched: boolean;
  /** Whether other owners may hold the lock beside it; left out: no. */
  readonly isShared?: boolean;
  /** Whether the client kept the lock until now, perhaps for long; left out: no. */
  readonly wasKept?: boolean;
  /**
   * Called before the watchdog does anything else with the lease: detects whether it ended while a caller relies on it, and schedules its
   * end if that comes before the next round.
   */
  checkEnd?(at: Instant): void;
  /**
   * How many milliseconds before `at`, by default now, the command that last confirmed the lease was sent; -1: nothing relies on the
   * lease any more.
   */
  ageMs(at?: Instant): number;
  /** The current server may not be the one that received the latest commands. */
  serverMayHaveChanged?(): void;
  /** A renewal by `leaseMs` (0: only a check) is being sent. */
  renewing?(leaseMs: number): void;
  /** The server has answered a renewal; returns whether it still has the lease. Not called for unanswered ones. */
  renewed(reply: Reply, renewal: Renewal): boolean;
}

/** An answered renewal; all leases of its batch share it. */
export interface Renewal {
  readonly sentAt: Instant;
  /** The lease it set, in milliseconds; 0: it was only a check. */
  readonly leaseMs: number;
  /** Until when the renewed leases may be relied on. */
  readonly deadline: Deadline;
  readonly answeredAt: Instant;
}

/** A limit on how often one lease may be extended. */
export interface RenewalLimit {
  /** Whether the lease may be extended now; if not, the watchdog only checks that it still exists. */
  readonly isDue: boolean;
  /** A renewal sent at `sentAt` was answered. */
  renewed(sentAt: Instant): void;
}

/** A lease under watch, and what its renewer needs to find it on the server. */
export interface Watched<Target> {
  readonly lease: Renewable<unknown>;
  readonly target: Target;
}

/** Where a held lock is, and what tells of changes there. */
export interface LockPlace {
  readonly connection: RedisClient;
  readonly key: string;
}

/** How leases of one kind are renewed. */
export interface Renewer<Target> {
  readonly kind: string;
  /** Leases with the same batch key may share one script call. */
  batchKey(target: Target): string;
  /** Where the owner of a held lock is a field of a hash; left out: it is the lease of something else. */
  placesOf?(target: Target): readonly LockPlace[];
  /** Sends one batch; a lease of 0 only checks. The answers are in the order of the batch. */
  renew(batch: readonly Watched<Target>[], leaseMs: number): Promise<readonly unknown[]>;
}

// A hold as the library itself sees it.

/** The kind of call that made a hold, which decides what may undo it. */
export type HoldOrigin = 'lock' | 'acquire' | 'withLock';

/** A hold as its lock sees it. */
export interface OwnHold extends Hold {
  /** The holds that `unlock()` undoes: itself, or those of a MultiLock's members, in their order. */
  readonly members: readonly HoldInScope[];
  /** The hold that ends with it, for the search for forgotten holds: itself, or the first member of a MultiLock. */
  readonly watched: WatchedHold;
  /** The function that got it has ended, and it is about to be released: a later use of it is probably a mistake. */
  functionEnded(): void;
  /** Calls `fn`, inside what a subscriber of `holdfast:hold` has set for it. */
  runInside<T>(fn: () => T): T;
  /** Releases the lock. If Redis cannot be reached, emits `error` instead of rejecting: the guarded work is done. */
  releaseQuietly(): Promise<void>;
}

// Deadlines: until when a process may rely on a lease that a server confirmed.

/**
 * The end of a confirmed lease as the client sees it. It is counted from when the command was sent, so it comes before the end of the
 * server's lease, whatever the network delay; the drift margin covers clocks that run at different speeds.
 */
export interface Deadline {
  readonly since: Instant;
  readonly usableMs: number;
}

/** What may be used of a lease: without the drift margin of Redis' description of Redlock, 1 % plus 2 ms, but at most half of it. */
export function usableMsOf(leaseMs: number): number {
  return leaseMs - Math.min(leaseMs * 0.01 + 2, leaseMs / 2);
}

/** The deadline of a lease of `leaseMs` that the server confirmed to a command sent at `sentAt` or later. */
export function deadlineOf(sentAt: Instant, leaseMs: number): Deadline {
  return { since: sentAt, usableMs: usableMsOf(leaseMs) };
}

/** The shortest lease, in whole milliseconds, on which a client may rely for `usableMs`. */
export function leaseFor(usableMs: number): number {
  return Math.max(Math.ceil(Math.min((usableMs + 2) / 0.99, 2 * usableMs)), 1);
}

/** The milliseconds left at `at`, by default now; 0 or less once the deadline has passed. */
export function leftMs(deadline: Deadline, at?: Instant): number {
  return deadline.usableMs - elapsedMs(deadline.since, at);
}

/** The earlier of two deadlines. */
export function earlier(one: Deadline, other: Deadline): Deadline {
  return later(one, other) === one ? other : one;
}

/** The later of two deadlines: a confirmation never shortens a lease. */
export function later(
  one: Deadline,
  other: Deadline,
  at: Instant = now(one.since.clock),
): Deadline {
  return leftMs(other, at) > leftMs(one, at) ? other : one;
}
