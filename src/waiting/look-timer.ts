// When the first in a line looks for itself. A message may never come: its sender died, or may not publish; nobody tells a subscription
// that its connection is dead. So a lock is looked at when the lease of its holder is over, and before that every now and then.

import { setTimer } from '../runtime/clock.js';

/** How long a line whose own client holds the lock goes without a subscription, in milliseconds: the hold mostly ends before. */
const DEAF_MS = 100;

export class LookTimer {
  readonly #lookEveryMs: number;
  readonly #isListening: () => boolean;
  readonly #look: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** When it goes off, on the monotonic clock. */
  #atMs = Infinity;

  /** `isListening`: whether the line hears of releases. */
  constructor(lookEveryMs: number, isListening: () => boolean, look: () => void) {
    this.#lookEveryMs = lookEveryMs;
    this.#isListening = isListening;
    this.#look = look;
  }

  /** Looks when the lock, which is held for `ttlMs` more (-1: no expiry), may be free; or when the timer rings anyway, if earlier. */
  lookBy(ttlMs: number): void {
    const atMs = this.#nextAtMs(ttlMs);
    if (atMs < this.#atMs) this.#set(atMs);
  }

  /** Looks when the lock, which is held for `ttlMs` more (-1: no expiry), may be free. */
  restart(ttlMs = -1): void {
    this.#set(this.#nextAtMs(ttlMs));
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #nextAtMs(ttlMs: number): number {
    const mostMs = this.#isListening() ? this.#lookEveryMs : Math.min(this.#lookEveryMs, DEAF_MS);
    return performance.now() + Math.min(ttlMs < 0 ? Infinity : ttlMs, mostMs);
  }

  #set(atMs: number): void {
    clearTimeout(this.#timer);
    this.#atMs = atMs;
    this.#timer = setTimer(this.#look, atMs - performance.now());
  }
}
