// How often the watchdog extends one Redlock at most, by `maxExtensions`; besides that the lock is only looked after.

import { elapsedMs, now, PROCESS_CLOCK, type Clock, type Instant } from '../../runtime/clock.js';
import type { RenewalLimit } from '../../core/renewal.js';

/** For this part of the lease after an extension there is no other one: that a master reconnects is no reason for it. */
const YOUNG_PART = 1 / 6;

/** For this part of the lease an extension that was asked for is waited for. */
const PENDING_PART = 1 / 10;

export class ExtensionLimit implements RenewalLimit {
  readonly #leaseMs: number;
  #extensionsLeft: number;
  /** When the extension that counts, or the acquisition, was asked for. */
  #extendedAt: Instant;
  /** When an extension was asked for last. */
  #askedAt: Instant | undefined;

  /** `leaseMs`: what the lock is extended by; `ageMs`: how long ago it was asked for. */
  constructor(maxExtensions: number, leaseMs: number, ageMs: number, clock: Clock = PROCESS_CLOCK) {
    this.#extensionsLeft = maxExtensions;
    this.#leaseMs = leaseMs;
    const { monotonicMs, wallMs } = now(clock);
    this.#extendedAt = { clock, monotonicMs: monotonicMs - ageMs, wallMs: wallMs - ageMs };
  }

  get isDue(): boolean {
    return this.#extensionsLeft > 0 && !this.#isYoung && !this.#isPending;
  }

  renewing(): void {
    this.#askedAt = now(this.#extendedAt.clock);
  }

  /** Two renewals that were on their way at a time are one extension. */
  renewed(sentAt: Instant): void {
    if (this.#isYoung) return;
    this.#extensionsLeft--;
    this.#extendedAt = sentAt;
  }

  get #isYoung(): boolean {
    return elapsedMs(this.#extendedAt) < this.#leaseMs * YOUNG_PART;
  }

  get #isPending(): boolean {
    return this.#askedAt !== undefined && elapsedMs(this.#askedAt) < this.#leaseMs * PENDING_PART;
  }
}
