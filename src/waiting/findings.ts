// What the waiters of one client for one lock know of it: whichever of them asked, they share the answer.

import type { SeenHolder } from '../api/errors.js';

export class Findings {
  /** Who had the lock, by the latest answer. */
  holder: SeenHolder | undefined;
  /** The error of the latest try that failed since that answer. */
  trouble: Error | undefined;
  #askedAtMs = -Infinity;

  /** When the latest answer was asked for, on the monotonic clock. */
  get askedAtMs(): number {
    return this.#askedAtMs;
  }

  held({ holder, holderTtlMs }: SeenHolder, askedAtMs: number): void {
    if (askedAtMs < this.#askedAtMs) return; // an answer that was overtaken
    this.holder = { holder, holderTtlMs };
    this.#askedAtMs = askedAtMs;
    this.trouble = undefined;
  }
}
