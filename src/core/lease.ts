// One lease as the process that relies on it sees it: until when, and how old its last confirmation is.

import { elapsedMs, type Instant } from '../runtime/clock.js';
import { later, leftMs, validity, type Validity } from './validity.js';

export class Lease {
  #validity: Validity;
  #confirmedAt: Instant;

  constructor(confirmed: Validity) {
    this.#validity = confirmed;
    this.#confirmedAt = confirmed.since;
  }

  /** Milliseconds that are left; 0 or less when it is over. */
  get leftMs(): number {
    return leftMs(this.#validity);
  }

  get isOver(): boolean {
    return this.leftMs <= 0;
  }

  /** How long ago the confirmation that counts was asked for, in milliseconds. */
  get ageMs(): number {
    return elapsedMs(this.#confirmedAt);
  }

  /** The server confirmed `leaseMs` more, asked for at `sentAt`. Never shortens it. */
  prolong(sentAt: Instant, leaseMs: number): void {
    this.#validity = later(this.#validity, validity(sentAt, leaseMs));
    this.#confirmedAt = sentAt;
  }
}
