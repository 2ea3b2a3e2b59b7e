// A local mutex, first come first served: one turn at a time within this process.

import type { WaitLimit } from '../runtime/wait-limit.js';

export class Turns {
  readonly #onIdle: (() => void) | undefined;
  #isTaken = false;
  /** Those who wait, in order. Most locks never have one. */
  #queue: Map<() => void, WaitLimit> | undefined;

  /** `onIdle` is called when a turn ends and nobody is waiting for the next. */
  constructor(onIdle?: () => void) {
    this.#onIdle = onIdle;
  }

  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** Takes the turn if nobody has it. */
  tryTake(): boolean {
    if (this.#isTaken) return false;
    this.#isTaken = true;
    return true;
  }

  /** Takes the next turn; false when the caller had better look again. Throws WaitEnded. */
  async take(waitLimit: WaitLimit): Promise<boolean> {
    if (this.tryTake()) return true;
    let grant!: () => void;
    const granted = new Promise<void>((resolve) => (grant = resolve));
    const queue = (this.#queue ??= new Map<() => void, WaitLimit>());
    queue.set(grant, waitLimit);
    let isMine = false;
    try {
      isMine = await waitLimit.sleep(granted);
      return isMine;
    } finally {
      // Not in the queue any more and yet not ours: it was granted in the instant in which we gave up.
      if (!queue.delete(grant) && !isMine) this.pass();
    }
  }

  /** Ends a turn; the next in the queue has it. */
  pass(): void {
    const [next] = this.#queue?.keys() ?? [];
    if (next) {
      this.#queue?.delete(next);
      next();
    } else {
      this.#isTaken = false;
      this.#onIdle?.();
    }
  }

  /** What they wait for is not to be had any more: all in the queue look again. */
  disturb(): void {
    for (const waitLimit of this.#queue?.values() ?? []) waitLimit.lookAgain();
  }
}
