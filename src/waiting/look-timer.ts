// When the first in a line looks for itself. A message may never come: its sender died, or may not publish; nobody tells a subscription
// that its connection is dead. So a lock is looked at when the lease of its holder is over, and before that every now and then.

import type { Clock, Timer } from '../runtime/clock.js';

/** How long a line whose own client holds the lock goes without a subscription, in milliseconds: the hold mostly ends before. */
const DEAF_MS = 100;

export class LookTimer {
  readonly #clock: Clock;
  readonly #lookEveryMs: number;
  readonly #isListening: () => boolean;
  readonly #look: () => void;
  #timer: Timer | undefined;
  /** When it goes off, on the monotonic clock. */
  #atMs = Infinity;

  /** `isListening`: whether the line hears of releases. */
  constructor(clock: Clock, lookEveryMs: number, isListening: () => boolean, look: () => void) {
    this.#clock = clock;
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
    this.#clock.clearTimer(this.#timer);
  }

  #nextAtMs(ttlMs: number): number {
    const mostMs = this.#isListening() ? this.#lookEveryMs : Math.min(this.#lookEveryMs, DEAF_MS);
    return this.#clock.nowMs() + Math.min(ttlMs < 0 ? Infinity : ttlMs, mostMs);
  }

  #set(atMs: number): void {
    this.#clock.clearTimer(this.#timer);
    this.#atMs = atMs;
    this.#timer = this.#clock.setTimer(this.#look, atMs - this.#clock.nowMs());
  }
}
