// What those of one client who wait for one lock were told of it last: whoever of them asked, all want to know the same.

import type { SeenHolder } from '../errors.js';

export class Findings {
  /** Who had the lock. */
  holder: SeenHolder | undefined;
  /** When that was asked, on the monotonic clock. */
  askedAtMs = -Infinity;
  /** What has gone wrong since then. */
  trouble: Error | undefined;

  held({ holder, holderTtlMs }: SeenHolder, askedAtMs: number): void {
    if (askedAtMs < this.askedAtMs) return; // an answer that was overtaken
    this.holder = { holder, holderTtlMs };
    this.askedAtMs = askedAtMs;
    this.trouble = undefined;
  }
}
