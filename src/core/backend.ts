// The seam between what all locks share (scopes, holds, the watchdog, waiting in line) and what one kind of lock
// does on its server or servers.

import type { TimeLimit } from '../runtime/clock.js';
import type { Findings } from '../waiting/findings.js';
import type { Seniority } from '../waiting/line.js';
import type { GrantedLock } from './grant-state.js';
import type { KeyInTheWay } from './key-conflict.js';
import type { AcquireReply, HandedOver, HeldReply } from './replies.js';

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

/**
 * One kind of lock, for one name. Each method sends its script once and rejects when no answer came; all of them
 * may be sent again: the owner's field is fresh for every outermost acquisition, and counts are targets.
 */
export interface LockBackend extends GrantedLock {
  /** What kind of lock it is, for people. */
  readonly kind: string;
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
  /** Frees it whoever holds it, and leaves word for its holder, for at most `wordMs`. Returns the owner that was forced out. */
  forceUnlock(wordMs: number): Promise<string | undefined>;
  isLocked(): Promise<boolean>;
  /** 0 when this owner does not hold it. */
  holdCount(ownerId: string): Promise<number>;
  /** Milliseconds; -2: not locked, -1: no expiry. */
  remainTimeToLive(): Promise<number>;
}
