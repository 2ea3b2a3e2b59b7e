// The commands that made or renewed one place in line, each known by its nonce: which of them may be answered by a grant,
// and from when that counts.

import { deadlineOf, type Deadline } from '../../core/deadline.js';
import { elapsedMs, now, type Clock, type Instant } from '../../runtime/clock.js';

interface Sending {
  readonly nonce: number;
  readonly at: Instant;
}

/** A hand-over of the lock to the place. */
export interface PlaceGrant {
  /** Until when that may be relied on. */
  readonly deadline: Deadline;
  /** The token of a fenced lock; undefined: none could be given, or it was not told. */
  readonly token: bigint | undefined;
}

interface Grant extends PlaceGrant {
  /** The nonce that the place had then. */
  readonly nonce: number;
}

export class Sendings {
  readonly #leaseMs: number;
  /** The newest command that was confirmed, and those since then; oldest first, so by rising nonces. */
  readonly #known: Sending[] = [];
  #confirmedAt: Instant;
  #grant: Grant | undefined;

  /** `leaseMs`: for how long each of the commands keeps the place. */
  constructor(clock: Clock, leaseMs: number) {
    this.#confirmedAt = now(clock);
    this.#leaseMs = leaseMs;
  }

  /** When the command was sent that was confirmed last. */
  get confirmedAt(): Instant {
    return this.#confirmedAt;
  }

  /** How long ago the command was sent that was confirmed last, in milliseconds. */
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

  /** Whether there is any nonce with which a grant would count. */
  get canBeGranted(): boolean {
    return this.#known.length > 0;
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

  /** A renewal that was sent at `sentAt` with this lease found that the lock had been handed over. */
  grantedAt(nonce: number, sentAt: Instant, leaseMs: number): void {
    this.#grant = { nonce, deadline: deadlineOf(sentAt, leaseMs), token: undefined };
  }

  /** The hand-over, if there was one; it can be taken once. */
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

  /** The command with this nonce was answered: a grant with an older nonce was made to an earlier place, and counts no more. */
  confirmed(nonce: number): void {
    this.#dropWhile((known) => known.nonce < nonce);
    this.#confirmedAt = this.#sentAt(nonce) ?? this.#confirmedAt;
    // That grant was made to a place that was lost before this command.
    if (this.#grant && this.#grant.nonce < nonce) this.#grant = undefined;
  }

  /** Nothing that answers what was sent before counts any more. */
  forget(): void {
    this.#known.length = 0;
    this.#grant = undefined;
  }

  /** Drops the oldest commands, up to the first one that is not over. */
  #dropWhile(isOver: (known: Sending) => boolean): void {
    for (;;) {
      const [oldest] = this.#known;
      if (!oldest || !isOver(oldest)) return;
      this.#known.shift();
    }
  }
}
