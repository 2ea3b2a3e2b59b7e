// A lease that is prolonged so many times at most, and otherwise only looked after.

import type { KeepReply, Renewable } from '../../core/backend.js';
import { elapsedMs, now, type Instant } from '../../runtime/clock.js';

/** For this part of the lease it is not prolonged again: that a master reconnects is no reason to. */
const YOUNG_PART = 1 / 6;

/** For this part of the lease an extension that was asked for is waited for. */
const PENDING_PART = 1 / 10;

export class LimitedLease implements Renewable {
  readonly #lease: Renewable;
  readonly #leaseMs: number;
  #extensionsLeft: number;
  /** When the extension that counts, or the acquisition, was asked for. */
  #prolongedAt: Instant;
  /** When an extension was asked for last. */
  #askedAt: Instant | undefined;

  /** `leaseMs`: what it is prolonged by. */
  constructor(lease: Renewable, maxExtensions: number, leaseMs: number) {
    this.#lease = lease;
    this.#extensionsLeft = maxExtensions;
    this.#leaseMs = leaseMs;
    const { monotonicMs, wallMs } = now();
    const { ageMs } = lease;
    this.#prolongedAt = { monotonicMs: monotonicMs - ageMs, wallMs: wallMs - ageMs };
  }

  get ownerId(): string {
    return this.#lease.ownerId;
  }

  get isWatched(): boolean {
    return this.#lease.isWatched && this.#extensionsLeft > 0 && !this.#isYoung && !this.#isPending;
  }

  get ageMs(): number {
    return this.#lease.ageMs;
  }

  checkDeadline(): void {
    this.#lease.checkDeadline();
  }

  renewing(leaseMs: number): void {
    if (leaseMs > 0) this.#askedAt = now();
    this.#lease.renewing(leaseMs);
  }

  renewed(reply: KeepReply, sentAt: Instant, leaseMs: number): void {
    if (leaseMs > 0 && !this.#isYoung) {
      this.#extensionsLeft--;
      this.#prolongedAt = sentAt;
    }
    this.#lease.renewed(reply, sentAt, leaseMs);
  }

  get #isYoung(): boolean {
    return elapsedMs(this.#prolongedAt) < this.#leaseMs * YOUNG_PART;
  }

  get #isPending(): boolean {
    return this.#askedAt !== undefined && elapsedMs(this.#askedAt) < this.#leaseMs * PENDING_PART;
  }
}
