// The commands that made or renewed one place in line, each known by its nonce: which of them may be answered by a grant,
// and from when that counts.

import { elapsedMs, now, type Instant } from '../../runtime/clock.js';

interface Sending {
  readonly nonce: number;
  readonly at: Instant;
}

export class Sendings {
  readonly #leaseMs: number;
  /** The newest that was confirmed, and those since then; oldest first, so by rising nonces. */
  readonly #known: Sending[] = [];
  #confirmedAt: Instant = now();

  /** `leaseMs`: how long the place is kept by each of them. */
  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs;
  }

  /** How long ago the one that was confirmed last was sent, in milliseconds. */
  get ageMs(): number {
    return elapsedMs(this.#confirmedAt);
  }

  /** A command with this nonce is about to be sent. */
  add(nonce: number, at: Instant): void {
    this.#dropWhile((known) => elapsedMs(known.at) >= this.#leaseMs);
    this.#known.push({ nonce, at });
  }

  /** When the command with this nonce was sent; undefined: a grant that answers it does not count (any more). */
  sentAt(nonce: number): Instant | undefined {
    return this.#known.find((known) => known.nonce === nonce)?.at;
  }

  /** Whether a command with a later nonce was sent. */
  hasLater(nonce: number): boolean {
    return this.#known.some((known) => known.nonce > nonce);
  }

  /** The command with this nonce was answered: older ones were for a place that was lost meanwhile, or are no longer the newest. */
  confirmed(nonce: number): void {
    this.#dropWhile((known) => known.nonce < nonce);
    this.#confirmedAt = this.sentAt(nonce) ?? this.#confirmedAt;
  }

  /** Nothing that was sent before counts any more. */
  forget(): void {
    this.#known.length = 0;
  }

  /** Drops the oldest ones for which this is so. */
  #dropWhile(isOver: (known: Sending) => boolean): void {
    for (;;) {
      const [oldest] = this.#known;
      if (!oldest || !isOver(oldest)) return;
      this.#known.shift();
    }
  }
}
