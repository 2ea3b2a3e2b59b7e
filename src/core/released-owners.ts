// The owners that were released last. Where Sentinels name the master, a replica that takes over may have missed their releases, and would
// keep their locks until the leases end.

/** How many are remembered at most; of more than that, only the newest. */
const MOST = 1_000;

/** Where an owner was released, and when its lease would have ended (monotonic). */
interface Released<Lock> {
  readonly lock: Lock;
  readonly ownerId: string;
  readonly endsAtMs: number;
}

export class ReleasedOwners<Lock> {
  readonly #leaseMs: number;
  readonly #newest: Released<Lock>[] = [];
  #next = 0;

  /** `leaseMs`: the lease of an owner of which no other is known. */
  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs;
  }

  add(lock: Lock, ownerId: string, leftMs: number = this.#leaseMs): void {
    this.#newest[this.#next] = { lock, ownerId, endsAtMs: performance.now() + leftMs };
    this.#next = (this.#next + 1) % MOST;
  }

  /** Those that a server may still have if it missed their release. */
  get unexpired(): readonly Released<Lock>[] {
    const nowMs = performance.now();
    return this.#newest.filter(({ endsAtMs }) => endsAtMs > nowMs);
  }
}
