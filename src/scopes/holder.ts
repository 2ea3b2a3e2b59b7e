// Who holds a lock within this process: a scope, a `withLock` body, an anonymous call. Re-entering makes holders a
// tree over one grant; the children of one holder take turns, so that parallel branches never overlap, unless all only read.

import { Turns } from './turns.js';
import type { LockLostError } from '../api/errors.js';

/** A scope, as its holders see it. */
interface HoldingScope {
  enter(lockId: string, holder: Holder): void;
  leave(lockId: string, holder: Holder): void;
  /** Whoever waits inside the scope for this lock may be able to re-enter it now. */
  wake(lockId: string): void;
}

export class Holder<Grant extends Held = Held> {
  readonly grant: Grant;
  /** The holder that this one re-entered; undefined for the outermost. */
  readonly parent: Holder<Grant> | undefined;
  /** The scope that holds the lock by this holder; undefined: an anonymous caller does. */
  readonly scope: HoldingScope | undefined;
  /** The scope whose call has a turn and is about to enter as a child; the last one, where several have. */
  entering: HoldingScope | undefined;
  /** Whether siblings may be inside with it. */
  #hasSharedTurn: boolean;
  /** Made when somebody re-enters it: most locks are held once. */
  #turns: Turns | undefined;
  #children: Set<Holder<Grant>> | undefined;
  #holds: HoldInScope[] = [];
  #hasLeft = false;

  /** `isShared`: its turn among the children of its parent is a shared one. */
  constructor(
    grant: Grant,
    parent: Holder<Grant> | undefined,
    scope: HoldingScope | undefined,
    isShared = false,
  ) {
    this.grant = grant;
    this.parent = parent;
    this.scope = scope;
    this.#hasSharedTurn = isShared;
    scope?.enter(grant.lock.id, this);
    if (parent) (parent.#children ??= new Set()).add(this);
  }

  /** The turns of its children. */
  get turns(): Turns {
    this.#turns ??= new Turns(() => {
      this.#easeOff();
    });
    return this.#turns;
  }

  /** Whether all its holds, but for retired ones, only read: whoever re-enters can only read, too, since siblings may be reading. */
  get isShared(): boolean {
    return this.#holds.every(({ isShared, isRetired }) => isShared || isRetired);
  }

  get holds(): readonly HoldInScope[] {
    return this.#holds;
  }

  /** Whether all its holds were given up. (One that was lost has not ended: whoever re-enters it must learn that.) */
  get hasEnded(): boolean {
    return !this.#isHeld || this.grant.isReleased;
  }

  /** Whether it has a hold that is not retired: to a retired one only an `unlock()`, or a release, is still owed. */
  get #isHeld(): boolean {
    return this.#holds.some(({ isRetired }) => !isRetired);
  }

  add(hold: HoldInScope): void {
    // Most have just one hold: an array that grows from nothing takes room for 17.
    if (this.#holds.length === 0) this.#holds = [hold];
    else this.#holds.push(hold);
  }

  /** A hold was given up; with the last one the next sibling has its turn, unless a child is still inside. */
  remove(hold: HoldInScope): void {
    const index = this.#holds.indexOf(hold);
    if (index < 0) return;
    this.#holds.splice(index, 1);
    if (this.#holds.length === 0) this.scope?.leave(this.grant.lock.id, this);
    this.#passOn();
  }

  /** A hold was lost while its grant goes on: it counts no more, but the scope keeps it until it is given up. */
  retire(hold: HoldInScope): void {
    if (this.scope) this.#passOn();
    else this.remove(hold);
  }

  #passOn(): void {
    if (!this.#isHeld) this.#surfaceChildren();
    this.#easeOff();
  }

  /**
   * A hold or the turn of a child has ended: the holder leaves if nobody is inside any more, or lets in siblings that only read if all
   * inside only read.
   */
  #easeOff(): void {
    if (!this.#isHeld && !this.#turns?.isTaken) {
      this.#leave();
      return;
    }
    if (this.#hasSharedTurn || this.#hasLeft || this.#turns?.isExclusive || !this.isShared) return;
    this.#hasSharedTurn = true;
    this.parent?.turns.share();
  }

  /** A hold of this holder was lost: those who wait to re-enter it, or a holder around it, must learn that now. */
  disturb(): void {
    this.#turns?.disturb();
    this.parent?.disturb();
  }

  #leave(): void {
    // Once only: a call that comes late may still take and pass the turn of a holder that has ended.
    if (!this.parent || this.#hasLeft) return;
    this.#hasLeft = true;
    this.parent.#children?.delete(this);
    this.parent.turns.pass();
  }

  /** Nobody holds by this holder any more: whoever could not re-enter the holders below it may be able to now. */
  #surfaceChildren(): void {
    for (const child of this.#children ?? []) {
      child.scope?.wake(child.grant.lock.id);
      child.#surfaceChildren();
    }
  }
}

// What scopes know of what is held in them: who may re-enter it and who may undo it, not how it is held.

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
