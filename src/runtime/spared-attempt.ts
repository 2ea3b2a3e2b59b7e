// How long an attempt has at least for its answer, however short the wait of its call is: a wait of 1 ms may be shorter than any round trip.

import { nextTick } from 'node:process';
import type { Clock } from './clock.js';

/** How long that is, in milliseconds. */
export const SPARED_MS = 100;

export class SparedAttempt {
  readonly #clock: Clock;
  /** On the monotonic clock; 0: no attempt is under way, Infinity: the one that has begun is still to be sent. */
  #untilMs = 0;
  #isFixed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** An attempt begins. What is gathered is sent at the end of this turn of the event loop, which may be long. */
  begin(): void {
    if (this.#isFixed) return;
    this.#untilMs = Infinity;
    nextTick(sent, this);
  }

  /** No attempt is under way any more. */
  end(): void {
    if (!this.#isFixed) this.#untilMs = 0;
  }

  /** Spares what is under way for so long from now on. */
  extend(ms: number): void {
    if (!this.#isFixed) this.#untilMs = Math.max(this.#untilMs, this.#clock.nowMs() + ms);
  }

  /** What begins or ends from now on changes nothing. Returns whether anything is under way that is spared. */
  fix(): boolean {
    this.#isFixed ||= this.leftMs > 0;
    return this.leftMs > 0;
  }

  /** Whether it is fixed: the wait is over, and its call goes on for the attempt alone. */
  get isFixed(): boolean {
    return this.#isFixed;
  }

  get leftMs(): number {
    return this.#untilMs === Infinity ? SPARED_MS : this.#untilMs - this.#clock.nowMs();
  }

  sent(): void {
    if (this.#untilMs === Infinity) this.#untilMs = this.#clock.nowMs() + SPARED_MS;
  }
}

function sent(attempt: SparedAttempt): void {
  attempt.sent();
}
