// A lease that is prolonged so many times at most, and otherwise only looked after.

import type { KeepReply, Renewable } from '../backend.js';
import type { Instant } from '../clock.js';

/** For this part of the lease it is not prolonged again: that a master reconnects is no reason to. */
const YOUNG_PART = 1 / 6;

export class LimitedLease implements Renewable {
  readonly #lease: Renewable;
  readonly #leaseMs: number;
  #extensionsLeft: number;
  /** When it was prolonged last, or acquired, on the monotonic clock. */
  #prolongedAtMs = performance.now();

  /** `leaseMs`: what it is prolonged by. */
  constructor(lease: Renewable, maxExtensions: number, leaseMs: number) {
    this.#lease = lease;
    this.#extensionsLeft = maxExtensions;
    this.#leaseMs = leaseMs;
  }

  get ownerId(): string {
    return this.#lease.ownerId;
  }

  get isWatched(): boolean {
    const isDue = performance.now() - this.#prolongedAtMs >= this.#leaseMs * YOUNG_PART;
    return this.#lease.isWatched && this.#extensionsLeft > 0 && isDue;
  }

  get ageMs(): number {
    return this.#lease.ageMs;
  }

  checkDeadline(): void {
    this.#lease.checkDeadline();
  }

  renewing(): void {
    this.#lease.renewing();
  }

  renewed(reply: KeepReply, sentAt: Instant, leaseMs: number): void {
    if (leaseMs > 0) {
      this.#extensionsLeft--;
      this.#prolongedAtMs = sentAt.monotonicMs;
    }
    this.#lease.renewed(reply, sentAt, leaseMs);
  }
}
