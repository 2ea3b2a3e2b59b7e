// The holds of a grant: how many there are, of which kind, since when; and to which heir the grant was passed on, until that one's hold
// begins.

import type { LockLostError } from '../api/errors.js';
import { elapsedMs, now, type Clock, type Instant } from '../runtime/clock.js';
import type { GrantedHold, Heir } from './granted-lock.js';
import type { RenewalLimit } from './renewal.js';

export abstract class GrantHolds {
  #holds: GrantedHold[] = [];
  /** To whom the grant was passed on, until that one's hold begins. */
  #heir: Heir | undefined;
  renewalLimit: RenewalLimit | undefined;
  /** When its present holder got the grant. */
  #heldSince: Instant;

  constructor(clock: Clock) {
    this.#heldSince = now(clock);
  }

  /** Whether other owners may hold the lock beside it (a reader, a permit). */
  abstract readonly isShared: boolean;

  get holdCount(): number {
    return this.#holds.length + Number(this.#heir !== undefined);
  }

  /** How many of its holds are shared, or how many are not. */
  countOf(isShared: boolean): number {
    return this.#holds.filter((hold) => (hold.isShared ?? false) === isShared).length;
  }

  /** Whether the grant has holds, all of them shared, and no heir. */
  protected get onlyReads(): boolean {
    return this.#holds.length > 0 && !this.#heir && this.countOf(false) === 0;
  }

  get heldForMs(): number {
    return elapsedMs(this.#heldSince);
  }

  get heldSince(): Date {
    return new Date(this.#heldSince.wallMs);
  }

  /** Whether any hold, or the heir, wants the lease to be renewed, and `renewalLimit` lets that happen now. */
  get isWatched(): boolean {
    const isWanted = this.#heir?.isWatched ?? this.#holds.some(({ isWatched }) => isWatched);
    return isWanted && (this.renewalLimit?.isDue ?? true);
  }

  /** Adds a hold. Returns whether the grant had none before, and no heir. */
  protected enter(hold: GrantedHold): boolean {
    const isFirst = this.holdCount === 0;
    // Most grants have just one hold: an array that grows from nothing takes room for 17.
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
    this.#heldSince = now(this.#heldSince.clock);
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
