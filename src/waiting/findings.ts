// What those of one client who wait for one lock were told of it last: whoever of them asked, all want to know the same.

import type { SeenHolder } from '../api/errors.js';

export class Findings {
  /** Who had the lock. */
  holder: SeenHolder | undefined;
  /** What has gone wrong since then. */
  trouble: Error | undefined;
  #askedAtMs = -Infinity;

  /** When it was asked who had it, on the monotonic clock. */
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
