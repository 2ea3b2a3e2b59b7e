// The seam between what all locks share (scopes, holds, the watchdog, waiting in line) and what one kind of lock
// does on its server or servers.

import type { Instant, TimeLimit } from '../runtime/clock.js';
import type { LossReason, SeenHolder } from '../api/errors.js';
import type { KeyInTheWay } from './key-conflict.js';
import type { Validity } from './validity.js';
import type { Findings } from '../waiting/findings.js';

/** What a try at a lock found. */
export type AcquireReply = Acquired | HandedOver | HeldReply;

export function isAcquired({ outcome }: { readonly outcome: AcquireReply['outcome'] }): boolean {
  return outcome !== 'held';
}

/** It is ours. */
interface Acquired {
  readonly outcome: 'acquired';
  /** Since when its lease counts, where that is not since the try began. */
  readonly sentAt?: Instant;
}

/** Somebody else has it. */
export interface HeldReply extends Readonly<SeenHolder> {
  readonly outcome: 'held';
  /** When to look again, in milliseconds, where that is not when the holder's lease ends. */
  readonly retryInMs?: number | undefined;
}

/** The holder before us gave the lock to us, while we waited. */
export interface HandedOver {
  readonly outcome: 'handed over';
  /** For how long it may be relied on as it is. */
  readonly validity: Validity;
  /** Sets the lease that was asked for, where that is not what a renewal would set anyway. */
  readonly confirm: (() => Promise<KeepReply>) | undefined;
}

/** The lease of a lock that is held. */
export interface HeldLease extends Renewable {
  readonly holdCount: number;
  /** Milliseconds for which this process may rely on it; 0: it is not held any more. */
  remaining(): number;
}

/** What a caller wants of a lock. */
export interface Wanted {
  readonly leaseMs: number;
  /** Whether the lease will be renewed. */
  readonly isWatched: boolean;
  /** Whether to wait if the lock is not free. */
  readonly mayWait: boolean;
  /** How long the caller will wait; left out: for ever. */
  readonly limit?: TimeLimit;
  readonly seniority?: Seniority | undefined;
}

/** What a caller may claim among those who wait with it, where that is not just that it came before them. */
export interface Seniority {
  /** Since when it has waited, on the monotonic clock. */
  readonly sinceMs: number;
  /** For how long it lets others try first, in other processes, too, when it is woken; in milliseconds. */
  deferMs(): number;
}

/** One caller's way to a lock: its tries, and its place in line between them. */
export interface Candidate {
  readonly ownerId: string;
  /** Tries. It may be repeated: the owner is never used for anything else. */
  try(): Promise<AcquireReply>;
  /** Takes, without asking, what was handed over while it waited; undefined: nothing that may be relied on. */
  claim?(): HandedOver | undefined;
  /** A try, begun at `triedAtMs` (monotonic), found somebody else: waits in line, at the same place as before. */
  wait(seen: HeldReply, triedAtMs: number): void;
  /** What those of this client who wait for the lock know of it; undefined: it does not wait. */
  readonly findings?: Findings | undefined;
  /** Sees to it that the server is asked, now unless that was done since `sinceMs` (monotonic): once for all of them. */
  look(sinceMs: number): void;
  /** Whether it is this one's turn to try. */
  readonly isUp: boolean;
  /** Resolves when it is. */
  readonly woken: Promise<void>;
  /**
   * Leaves the line: the lock was acquired, for `leaseMs`, or it is not wanted any more. Returns whether something of it
   * may be left on the server.
   */
  leave(leaseMs?: number): boolean;
}

/** What the server says of a lock that its caller should hold: kept, or how it was lost. */
export type KeepReply = 'kept' | Extract<LossReason, 'taken' | 'deleted' | 'forced'>;

export function isKept(reply: KeepReply): boolean {
  return reply === 'kept';
}

/** A lease that the watchdog looks after: of a lock that is held, or of a place in line. */
export interface Renewable<Reply = KeepReply> {
  readonly ownerId: string;
  /** Whether the lease is prolonged; one of a fixed lease is only looked after. */
  readonly isWatched: boolean;
  /** Finds out whether the lease is over before anything else is done with it. */
  checkDeadline(): void;
  /** How long ago the confirmation that counts was asked for, in milliseconds; -1: it is not held any more. */
  readonly ageMs: number;
  /** A renewal by `leaseMs`, 0 for a mere look, is on its way. */
  renewing(leaseMs: number): void;
  /** The server's answer to a renewal by `leaseMs`, 0 for a mere look; an unanswered one is never reported. */
  renewed(reply: Reply, sentAt: Instant, leaseMs: number): void;
}

/**
 * One kind of lock, for one name. Each method sends its script once and rejects when no answer came; all of them
 * may be sent again: the owner's field is fresh for every outermost acquisition, and counts are targets.
 */
export interface LockBackend {
  /** What kind of lock it is, for people. */
  readonly kind: string;
  /** The name that the user gave. */
  readonly name: string;
  /** The same for the same lock of the same client, whatever object stands for it. */
  readonly id: string;
  /** Whether something of it may be left when it was lost to somebody else. */
  readonly leavesRemains?: boolean;
  /** Whether it can be asked now, where the client’s connection does not tell. */
  readonly isReachable?: boolean;
  /** After a command has met a key of another kind: which one it is, and what. */
  keyInTheWay?(): Promise<KeyInTheWay | undefined>;
  /** A new owner, never used before. */
  readonly newOwnerId: () => string;
  /** `newOwnerId` makes each owner that it tries as; for some kinds every try needs another. */
  candidate(newOwnerId: () => string, wanted: Wanted): Candidate;
  /** Sends the one command of a first try, where a try is no more than that; undefined: it is. */
  tryAtOnce?(ownerId: string, leaseMs: number): Promise<AcquireReply> | undefined;
  /**
   * Sets the hold count of a lock that must still be held, and prolongs its lease to at least `leaseMs` from now (0: not
   * at all); or says how it was lost.
   *
   * @param limit - how long its caller will wait
   */
  reenter(
    ownerId: string,
    holdCount: number,
    leaseMs: number,
    limit: TimeLimit,
  ): Promise<KeepReply>;
  /** Gives up the lock, or a place in line for it; who waits is told. False when this owner does not hold it (any more). */
  release(ownerId: string): Promise<boolean>;
  /** Nobody of this client holds it as this owner any more, nor waits for it as this owner. */
  forget?(ownerId: string): void;
  /** Looks after it until `unwatch`: renews it if it is watched, and finds out if it is lost. */
  watch(lease: HeldLease): void;
  unwatch(lease: HeldLease): void;
  /** Frees it whoever holds it, and leaves word for its holder, for at most `wordMs`. Returns the owner that was forced out. */
  forceUnlock(wordMs: number): Promise<string | undefined>;
  isLocked(): Promise<boolean>;
  /** 0 when this owner does not hold it. */
  holdCount(ownerId: string): Promise<number>;
  /** Milliseconds; -2: not locked, -1: no expiry. */
  remainTimeToLive(): Promise<number>;
}
