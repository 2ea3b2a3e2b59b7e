// The holds of a grant: how many there are, of which kind, since when; and to whom it was passed on, until that hold begins.

import type { LockLostError } from '../api/errors.js';
import { elapsedMs, now, type Instant } from '../runtime/clock.js';
import type { GrantedHold, Heir } from './granted-lock.js';
import type { RenewalLimit } from './renewal.js';

export abstract class GrantHolds {
  #holds: GrantedHold[] = [];
  /** To whom it was passed on, until that hold begins. */
  #heir: Heir | undefined;
  renewalLimit: RenewalLimit | undefined;
  /** Since when its present holder has it. */
  #heldSince: Instant = now();

  /** Whether others may read beside it. */
  abstract readonly isShared: boolean;

  get holdCount(): number {
    return this.#holds.length + Number(this.#heir !== undefined);
  }

  /** How many of its holds only read, or how many do not. */
  countOf(isShared: boolean): number {
    return this.#holds.filter((hold) => (hold.isShared ?? false) === isShared).length;
  }

  /** Whether all its holds only read. */
  protected get onlyReads(): boolean {
    return this.#holds.length > 0 && !this.#heir && this.countOf(false) === 0;
  }

  get heldForMs(): number {
    return elapsedMs(this.#heldSince);
  }

  get heldSince(): Date {
    return new Date(this.#heldSince.wallMs);
  }

  /** Whether any of them wants the lease to be renewed, and it may be now. */
  get isWatched(): boolean {
    const isWanted = this.#heir?.isWatched ?? this.#holds.some(({ isWatched }) => isWatched);
    return isWanted && (this.renewalLimit?.isDue ?? true);
  }

  /** Returns whether it is the first: the one and only, and not the heir's. */
  protected enter(hold: GrantedHold): boolean {
    const isFirst = this.holdCount === 0;
    // Most have just one hold: an array that grows from nothing takes room for 17.
    if (this.#holds.length === 0) this.#holds = [hold];
    else this.#holds.push(hold);
    this.#heir = undefined;
    return isFirst;
  }

  protected leave(hold: GrantedHold): void {
    const index = this.#holds.indexOf(hold);
    if (index >= 0) this.#holds.splice(index, 1);
  }

  protected passTo(heir: Heir): void {
    this.#heir = heir;
    this.#heldSince = now();
  }

  protected passToNobody(): void {
    this.#heir = undefined;
  }

  /** The grant was lost. */
  protected notifyLost(error: LockLostError): void {
    for (const hold of [...this.#holds]) hold.lost(error);
    this.#heir?.lost(error);
  }
}
