// A pause in which other clients may take the lock of whose release they were told.

import type { Clock, Timer } from '../runtime/clock.js';

export class StandBack {
  readonly #clock: Clock;
  #pause: Timer | Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isOn(): boolean {
    return this.#pause !== undefined;
  }

  /** Pauses for `ms` milliseconds from now, whatever pause was on; then calls `over`. */
  begin(ms: number, over: () => void): void {
    this.end();
    this.#pause = this.#clock.setTimer(() => {
      this.#pause = undefined;
      over();
    }, ms);
  }

  /** Pauses for two round trips to the server, by calling `ask` twice; then calls `over`. */
  beginRoundTrips(ask: () => Promise<unknown>, over: () => void): void {
    this.end();
    const pause: Promise<void> = ask()
      .then(ask)
      .catch(() => undefined)
      .then(() => {
        if (this.#pause !== pause) return;
        this.#pause = undefined;
        over();
      });
    this.#pause = pause;
  }

  end(): void {
    if (!(this.#pause instanceof Promise)) this.#clock.clearTimer(this.#pause);
    this.#pause = undefined;
  }
}
