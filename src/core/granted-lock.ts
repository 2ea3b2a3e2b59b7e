// What a grant, the lock that was granted, and those who hold it or are to have it next know of each other.

import type { LockLostError, SeenHolder } from '../api/errors.js';
import type { TimeLimit } from '../runtime/clock.js';
import type { Removable } from './cleanup.js';
import type { KeepReply } from './replies.js';
import type { Renewable, RenewalLimit } from './renewal.js';

/** What a server gave this client, as its lock and those who wait see it. */
export interface Granted extends Renewable {
  readonly isHeld: boolean;
  readonly holdCount: number;
  /** What a fenced lock gave with it. */
  readonly token?: bigint | undefined;
  /** Its owner and the time that is left, as a caller is told who is refused the lock because of it. */
  readonly seen: SeenHolder;
  renewalLimit: RenewalLimit | undefined;
  /** Milliseconds for which this process may rely on it; 0: it is not held any more. */
  remaining(): number;
  /** Somebody to whom it was passed on does not want it any more. */
  decline(): void;
}

/** A hold as its grant sees it: whether it wants the lease to be renewed, and how it learns that the grant was lost. */
export interface GrantedHold {
  readonly isWatched: boolean;
  /** Whether it only reads. */
  readonly isShared?: boolean;
  lost(error: LockLostError): void;
}

/** Who of the same client is next in line, and takes the grant as it is. */
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
  /** Whether several may have it at a time, each by an owner of its own. Of a read-write lock that is the half that only reads; both have one `id`. */
  readonly isShared?: boolean;
  /** Whether something of the lock may be left on its servers when it was lost to somebody else. */
  readonly leavesRemains?: boolean;
  /**
   * Sets the hold count of a lock that must still be held, and prolongs its lease to at least `leaseMs` from now (0: not
   * at all); or says how it was lost. `limit`: how long its caller will wait. `isShared`: of a read-write lock, that all who
   * hold it only read from now on, so that others may do so beside them.
   */
  reenter(
    ownerId: string,
    holdCount: number,
    leaseMs: number,
    limit: TimeLimit,
    isShared: boolean,
  ): Promise<KeepReply>;
  /** The server gave it to this client. */
  granted?(grant: Granted): void;
  /** Nobody of this client holds it as this owner any more, nor waits for it as this owner. */
  forget?(ownerId: string): void;
  /** Those of this client who wait for it, where a grant of it may be passed on among them. */
  readonly localLine?: { readonly heir: Heir | undefined; readonly length: number } | undefined;
  /** How often this owner holds the lock; 0: not at all. */
  holdCount(ownerId: string): Promise<number>;
  /** Looks after a grant until `unwatch`: renews it if it is watched, and finds out if it is lost. */
  watch(grant: Granted): void;
  unwatch(grant: Granted): void;
}
