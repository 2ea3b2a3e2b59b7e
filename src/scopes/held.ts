// What scopes know of what is held in them: who may re-enter it and who may undo it, not how it is held.

import type { LockLostError } from '../api/errors.js';

/** A lock as scopes know it: the two halves of a read-write lock are one. */
export interface ScopedLock {
  /** The same for the same lock of the same client. */
  readonly id: string;
  /** Whether several owners may have it at a time, as the half of a read-write lock that only reads, or a semaphore. */
  readonly isShared?: boolean;
}

/** A lock that one owner holds, however often it was re-entered. */
export interface Held {
  readonly lock: ScopedLock;
  readonly ownerId: string;
  /** Whether its release was sent: nobody may re-enter it any more. */
  readonly isReleased: boolean;
}

/** One of the holds by which a scope, or an anonymous caller, holds a lock. */
export interface HoldInScope {
  readonly lockName: string;
  readonly ownerId: string;
  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  readonly isShared: boolean;
  /** Whether `unlock()` may undo it. */
  readonly isUnlockable: boolean;
  /** Whether it was lost while its owner goes on: nobody is inside it any more, but the `unlock()` that it is owed must find it. */
  readonly isRetired: boolean;
  release(): Promise<void>;
  /** Takes the hold from its caller, whose `signal` aborts with `error`. */
  revoke(error: LockLostError): Promise<void>;
  /** How long the hold lasts if nobody undoes it, in milliseconds; Infinity: it is renewed. */
  readonly lastsForMs: number;
  /** Nobody will undo it any more: it ends with its lease at the latest. */
  stopRenewing(): void;
}
