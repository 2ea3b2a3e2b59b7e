// The seam between what all locks share (scopes, holds, the watchdog, waiting in line) and what one kind of lock
// does on its server or servers.

import type { GrantedLock } from './grant-state.js';
import type { KeyInTheWay } from './key-conflict.js';
import type { AcquireReply } from './replies.js';
import type { LockRequest } from './request.js';
import type { Waiter } from './waiter.js';

/**
 * One kind of lock, for one name. Each method sends its script once and rejects when no answer came; all of them
 * may be sent again: the owner's field is fresh for every outermost acquisition, and counts are targets.
 */
export interface LockBackend extends GrantedLock {
  /** What kind of lock it is, for people. */
  readonly kind: string;
  /** The ids of the locks that it is made of, if it is made of others. */
  readonly memberIds?: readonly string[];
  /** Whether it can be asked now, where the client’s connection does not tell. */
  readonly isReachable?: boolean;
  /** After a command has met a key of another kind: which one it is, and what. */
  keyInTheWay?(): Promise<KeyInTheWay | undefined>;
  /** A new owner, never used before. */
  readonly newOwnerId: () => string;
  /** `newOwnerId` makes each owner that it tries as; for some kinds every try needs another. */
  waiter(newOwnerId: () => string, request: LockRequest): Waiter;
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
