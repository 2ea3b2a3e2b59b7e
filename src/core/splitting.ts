// When a call for many leases that was refused is made again for each of them alone: one that the server refuses, or that is in another
// slot, must not take all others with it. Not by halves: alone each is answered after one more round trip, however many they are, and so
// well before its lease ends.

import { mayConcernSome } from '../redis/failure.js';
import { elapsedMs, now, type Instant } from '../runtime/clock.js';

export class Splitting<Item extends object> {
  readonly #pauseMs: number;
  /** When each was last refused alone. */
  readonly #refusedAt = new WeakMap<Item, Instant>();

  /**
   * @param pauseMs - for how long items that were all refused alone are asked for together only, however often that is: a server that
   *   refuses everything is not sent one command for each all the time
   */
  constructor(pauseMs: number) {
    this.#pauseMs = pauseMs;
  }

  /** A call for these has failed. Returns whether it is to be made again for each of them alone. */
  isDue(items: readonly Item[], error: unknown): boolean {
    if (!mayConcernSome(error)) return false;
    const [first] = items;
    if (first && items.length === 1) {
      this.#refusedAt.set(first, now());
      return false;
    }
    return items.some((item) => {
      const refusedAt = this.#refusedAt.get(item);
      return !refusedAt || elapsedMs(refusedAt) >= this.#pauseMs;
    });
  }
}
