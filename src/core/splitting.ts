// When a call for many leases that was refused is made again for each of them alone: one that the server refuses, or that is in another
// slot, must not take all others with it. Not by halves: alone each is answered after one more round trip, however many they are, and so
// well before its lease ends.

import { mayConcernSome } from '../redis/failure.js';
import { elapsedMs, now, type Clock, type Instant } from '../runtime/clock.js';

export class Splitting<Item extends object> {
  readonly #clock: Clock;
  readonly #pauseMs: number;
  /** When each was last refused alone. */
  readonly #refusedAt = new WeakMap<Item, Instant>();

  /**
   * @param pauseMs - for how long an item that was refused alone is asked for together with others only, however often that is: a server
   *   that refuses many is not sent one command for each all the time
   */
  constructor(clock: Clock, pauseMs: number) {
    this.#clock = clock;
    this.#pauseMs = pauseMs;
  }

  /** A call for these has failed. Returns those for each of which it is to be made again alone. */
  due(items: readonly Item[], error: unknown): ReadonlySet<Item> {
    const none = new Set<Item>();
    if (!mayConcernSome(error)) return none;
    const [first] = items;
    if (first && items.length === 1) {
      this.#refusedAt.set(first, now(this.#clock));
      return none;
    }
    const due = items.filter((item) => {
      const refusedAt = this.#refusedAt.get(item);
      return !refusedAt || elapsedMs(refusedAt) >= this.#pauseMs;
    });
    return new Set(due);
  }
}
