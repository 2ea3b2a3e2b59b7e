// One lease as the process that relies on it sees it: until when, how old its last confirmation is, and a timer that
// tells when it is over.

import { elapsedMs, setTimer, type Instant } from './clock.js';
import { later, leftMs, validity, type Validity } from './validity.js';

export class Lease {
  #validity: Validity;
  #confirmedAt: Instant;
  readonly #onOver: () => void;
  #timer: NodeJS.Timeout | undefined;

  /** `onOver` is called once it is over, from `begin` on. */
  constructor(confirmed: Validity, onOver: () => void) {
    this.#validity = confirmed;
    this.#confirmedAt = confirmed.since;
    this.#onOver = onOver;
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

  /** Watches the clock from now on. */
  begin(): void {
    this.#timer ??= setTimer(this.#look, this.leftMs);
  }

  /** Nobody relies on it any more. */
  end(): void {
    clearTimeout(this.#timer);
  }

  readonly #look = (): void => {
    this.#timer = undefined;
    if (this.isOver) this.#onOver();
    else this.begin(); // it was prolonged in the meantime
  };
}
