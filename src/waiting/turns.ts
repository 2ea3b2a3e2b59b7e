// A local mutex, first come first served: one turn at a time within this process.

import type { Patience } from './patience.js';

export class Turns {
  #isTaken = false;
  readonly #queue = new Set<() => void>();

  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** Takes the next turn; false when the caller had better look again. Throws PatienceOver. */
  async take(patience: Patience): Promise<boolean> {
    if (!this.#isTaken) {
      this.#isTaken = true;
      return true;
    }
    let grant!: () => void;
    const granted = new Promise<void>((resolve) => (grant = resolve));
    this.#queue.add(grant);
    let isMine = false;
    try {
      isMine = await patience.sleep(granted);
      return isMine;
    } finally {
      // Not in the queue any more and yet not ours: it was granted in the instant in which we gave up.
      if (!this.#queue.delete(grant) && !isMine) this.pass();
    }
  }

  /** Ends a turn; the next in the queue has it. */
  pass(): void {
    const next = this.#queue.values().next();
    if (next.done) {
      this.#isTaken = false;
      return;
    }
    this.#queue.delete(next.value);
    next.value();
  }
}
