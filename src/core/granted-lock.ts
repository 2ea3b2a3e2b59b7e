// What a grant, the lock that was granted, and those who hold it or are to have it next know of each other.

import type { LockLostError, SeenHolder } from '../api/errors.js';
import type { TimeLimit } from '../runtime/clock.js';
import type { Removable } from './cleanup.js';
import type { KeepReply } from './replies.js';
import type { Renewable, RenewalLimit } from './renewal.js';

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
  /** The heir to whom the grant was passed on does not want it. */
  decline(): void;
}

/** A hold as its grant sees it: whether it wants the lease to be renewed, and how it learns that the grant was lost. */
export interface GrantedHold {
  readonly isWatched: boolean;
  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  readonly isShared?: boolean;
  lost(error: LockLostError): void;
}

/** The waiter of the same client that is next in line, and takes the grant as it is. */
export interface Heir extends GrantedHold {
  /** The grant is passed on: the heir's hold is to begin, or it declines. */
  inherit(grant: Granted): void;
}

/** A lock of any kind. */
export interface NamedLock {
  /** The same for the same lock of the same client, whatever object stands for it. */
  readonly id: string;
  /** The name that its caller gave. */
  readonly name: string;
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
  /** This client's line for the lock, of a kind whose grants may be passed on in it. */
  readonly localLine?: { readonly heir: Heir | undefined; readonly length: number } | undefined;
  /** How often this owner holds the lock; 0: not at all. */
  holdCount(ownerId: string): Promise<number>;
  /** Looks after a grant until `unwatch`: renews it if it is watched, and finds out if it is lost. */
  watch(grant: Granted): void;
  unwatch(grant: Granted): void;
}
