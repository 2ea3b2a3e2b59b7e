// The line as it is seen from outside, and whether the lock went along it.

import type { Worker } from '../support/crew.js';

/** One stay in the critical section; times on the machine's monotonic clock. */
export interface Stay {
  readonly worker: Worker;
  readonly ownerId: string;
  readonly waitedMs: number;
  readonly enteredAtMs: number;
  /** undefined: it is inside, or was killed there. */
  leftAtMs?: number;
}

export class Line {
  readonly #stays: Stay[] = [];
  /** How-manieth each owner was that was ever seen in line. */
  readonly #ranks = new Map<string, number>();
  #waiters: readonly string[] = [];
  #jumped = 0;

  /** The owners that wait, the next one first. */
  get waiters(): readonly string[] {
    return this.#waiters;
  }

  /** In the order in which they began. */
  get stays(): readonly Stay[] {
    return this.#stays;
  }

  /** The line as it is now. Whoever is new in it must be behind all that were there before. */
  see(waiters: readonly string[]): void {
    this.#waiters = waiters;
    for (const owner of waiters) {
      if (!this.#ranks.has(owner)) this.#ranks.set(owner, this.#ranks.size);
    }
    this.#jumped += descents(waiters.map((owner) => this.#ranks.get(owner)!));
  }

  enter(stay: Stay): void {
    this.#waiters = this.#waiters.filter((owner) => owner !== stay.ownerId);
    // Told by different processes: the order in which that arrives is not the order in which it happened.
    const index = this.#stays.findIndex(({ enteredAtMs }) => enteredAtMs > stay.enteredAtMs);
    this.#stays.splice(index === -1 ? this.#stays.length : index, 0, stay);
  }

  leave(worker: Worker, atMs: number): void {
    const stay = this.#stays.findLast((known) => known.worker === worker);
    if (stay) stay.leftAtMs = atMs;
  }

  /** How often somebody came in, or into the line, ahead of one who had been in line before. */
  get outOfOrder(): number {
    const ranks = this.#stays.map(({ ownerId }) => this.#ranks.get(ownerId));
    return this.#jumped + descents(ranks.filter((rank) => rank !== undefined));
  }
}

/** How many are lower than one before them. */
function descents(ranks: readonly number[]): number {
  let highest = -1;
  let count = 0;
  for (const rank of ranks) {
    if (rank < highest) count++;
    highest = Math.max(highest, rank);
  }
  return count;
}
