// The seam between what all locks share (scopes, holds, grants, the watchdog) and what one kind of lock does on its server or
// servers.

import type { RedisClient } from '../redis/client.js';
import type { TimeLimit } from '../runtime/clock.js';
import type { GrantedLock } from './granted-lock.js';
import type { KeyInTheWay } from './key-conflict.js';
import type { AcquireReply } from './replies.js';
import type { LockRequest } from './request.js';
import type { Waiter } from './waiter.js';

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
  readonly isBusyHere?: boolean;
  /** The waiter for a caller who wants the lock. It tries as an owner that `newOwnerId` makes; for some kinds each try needs a new one. */
  waiter(newOwnerId: () => string, request: LockRequest): Waiter;
  /**
   * Sends the one command of a first try; undefined, or left out: a try takes more than one command, and nothing was sent.
   *
   * @param limit - how long the caller will wait
   */
  tryAtOnce?(ownerId: string, leaseMs: number, limit: TimeLimit): Promise<AcquireReply> | undefined;
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
   * Frees the lock whoever holds it, and leaves a note for its holder on the server, for at most `wordMs`. Returns the owner that was
   * forced out; undefined: there was none.
   */
  forceUnlock(wordMs: number): Promise<string | undefined>;
  isLocked(): Promise<boolean>;
  /** How long the lock's lease still lasts, in milliseconds; -2: not locked, -1: no expiry. */
  remainTimeToLive(): Promise<number>;
}
