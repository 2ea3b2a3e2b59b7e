// The commands that made or renewed one place in line, each known by its nonce: which of them may be answered by a grant,
// and from when that counts.

import { deadlineOf, type Deadline } from '../../core/deadline.js';
import { elapsedMs, now, type Instant } from '../../runtime/clock.js';

interface Sending {
  readonly nonce: number;
  readonly at: Instant;
}

/** The lock was handed over. */
export interface PlaceGrant {
  /** Until when that may be relied on. */
  readonly deadline: Deadline;
  /** What a fenced lock gave with it; undefined: it could not, or that was not told. */
  readonly token: bigint | undefined;
}

interface Grant extends PlaceGrant {
  /** Of the place at that time. */
  readonly nonce: number;
}

export class Sendings {
  readonly #leaseMs: number;
  /** The newest that was confirmed, and those since then; oldest first, so by rising nonces. */
  readonly #known: Sending[] = [];
  #confirmedAt: Instant = now();
  #grant: Grant | undefined;

  /** `leaseMs`: how long the place is kept by each of them. */
  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs;
  }

  /** How long ago the one that was confirmed last was sent, in milliseconds. */
  ageMs(at?: Instant): number {
    return elapsedMs(this.#confirmedAt, at);
  }

  /** A command with this nonce is about to be sent. */
  add(nonce: number, at: Instant): void {
    this.#dropWhile((known) => elapsedMs(known.at) >= this.#leaseMs);
    this.#known.push({ nonce, at });
  }

  get isGranted(): boolean {
    return this.#grant !== undefined;
  }

  /**
   * The lock was handed over: that counts from when the command was sent whose nonce the place had then. A grant with a nonce older
   * than the newest one confirmed, or than one that found the place gone, is left over from before that. Returns whether it counts.
   */
  granted(nonce: number, token: bigint | undefined): boolean {
    const sentAt = this.#sentAt(nonce);
    if (!sentAt || this.#grant) return false;
    this.#grant = { nonce, deadline: deadlineOf(sentAt, this.#leaseMs), token };
    return true;
  }

  /** A command that was sent at that time with this lease found that it had been handed over. */
  grantedAt(nonce: number, sentAt: Instant, leaseMs: number): void {
    this.#grant = { nonce, deadline: deadlineOf(sentAt, leaseMs), token: undefined };
  }

  /** What was handed over: to be asked for once. */
  takeGrant(): PlaceGrant | undefined {
    const grant = this.#grant;
    this.#grant = undefined;
    return grant;
  }

  /** When the command with this nonce was sent; undefined: a grant that answers it does not count (any more). */
  #sentAt(nonce: number): Instant | undefined {
    return this.#known.find((known) => known.nonce === nonce)?.at;
  }

  /** Whether a command with a later nonce was sent. */
  hasLater(nonce: number): boolean {
    return this.#known.some((known) => known.nonce > nonce);
  }

  /** The command with this nonce was answered: older ones were for a place that was lost meanwhile, or are no longer the newest. */
  confirmed(nonce: number): void {
    this.#dropWhile((known) => known.nonce < nonce);
    this.#confirmedAt = this.#sentAt(nonce) ?? this.#confirmedAt;
    // It was made to a place that was lost before that command.
    if (this.#grant && this.#grant.nonce < nonce) this.#grant = undefined;
  }

  /** Nothing that answers what was sent before counts any more. */
  forget(): void {
    this.#known.length = 0;
    this.#grant = undefined;
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
