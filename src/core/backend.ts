// The seam between what all locks share (scopes, holds, grants, the watchdog) and what one kind of lock does on its server or
// servers.

import type { TimeLimit } from '../runtime/clock.js';
import type { GrantedLock } from './granted-lock.js';
import type { KeyInTheWay } from './key-conflict.js';
import type { AcquireReply } from './replies.js';
import type { LockRequest } from './request.js';
import type { Waiter } from './waiter.js';

/**
 * One kind of lock, for one name. Each method sends its script once and rejects when no answer came; all of them
 * may be sent again: the owner's field is fresh for every outermost acquisition, and counts are targets.
 */
export interface AcquirableLock extends GrantedLock {
  /** Whether each holder is given a fencing token. */
  readonly isFenced?: boolean;
  /** Whether an owner that has it may have it once more, as one of any lock may; left out: it may. */
  readonly isReentrant?: boolean;
  /** The ids of the locks that it is made of, if it is made of others. */
  readonly memberIds?: readonly string[];
  /** Whether the servers of the lock can be asked now, where the connection of its client does not tell. */
  readonly isReachable?: boolean;
  /** After a command has met a key of another kind: which one it is, and what. */
  keyInTheWay?(): Promise<KeyInTheWay | undefined>;
  /** A new owner, never used before. */
  readonly newOwnerId: () => string;
  /** Whether this client has the lock, or somebody of it waits: then it is not asked for at once. */
  readonly isBusyHere?: boolean;
  /** A caller who wants the lock. `newOwnerId` makes each owner that the waiter tries as; for some kinds every try needs another. */
  waiter(newOwnerId: () => string, request: LockRequest): Waiter;
  /**
   * Sends the one command of a first try; undefined, or left out: a try takes more than one command, and nothing was sent.
   *
   * @param limit - how long the caller will wait
   */
  tryAtOnce?(ownerId: string, leaseMs: number, limit: TimeLimit): Promise<AcquireReply> | undefined;
}

/** The same with all that callers may ask of a lock. */
export interface LockBackend extends AcquirableLock {
  /** What kind of lock it is, for people. */
  readonly kind: string;
  /** Frees the lock whoever holds it, and leaves word for its holder, for at most `wordMs`. Returns the owner that was forced out. */
  forceUnlock(wordMs: number): Promise<string | undefined>;
  isLocked(): Promise<boolean>;
  /** Milliseconds; -2: not locked, -1: no expiry. */
  remainTimeToLive(): Promise<number>;
}
