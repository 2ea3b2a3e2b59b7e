// The owners that were released last. Where Sentinels name the master, a replica that takes over may have missed their releases, and would
// keep their locks until the leases end.

import type { Clock } from '../runtime/clock.js';

/** How many are remembered at most; of more than that, only the newest. */
const MOST = 1_000;

/** Where an owner was released, and when its lease would have ended (monotonic). */
interface Released<Lock> {
  readonly lock: Lock;
  readonly ownerId: string;
  readonly endsAtMs: number;
}

export class ReleasedOwners<Lock> {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #newest: Released<Lock>[] = [];
  #next = 0;

  /** `leaseMs`: the lease of an owner of which no other is known. */
  constructor(clock: Clock, leaseMs: number) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  add(lock: Lock, ownerId: string, leftMs: number = this.#leaseMs): void {
    this.#newest[this.#next] = { lock, ownerId, endsAtMs: this.#clock.nowMs() + leftMs };
    this.#next = (this.#next + 1) % MOST;
  }

  /** Those that a server may still have if it missed their release. */
  get unexpired(): readonly Released<Lock>[] {
    const nowMs = this.#clock.nowMs();
    return this.#newest.filter(({ endsAtMs }) => endsAtMs > nowMs);
  }
}
