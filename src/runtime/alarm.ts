// One timer for many who wait for a time: set for whoever is first, and left alone while others come and go.

import { setTimer } from './clock.js';
import { inOwnContext } from './own-context.js';

export class Alarm {
  readonly #ring: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** When it rings, on the monotonic clock. */
  #atMs = Infinity;
  #isResting = false;

  /** `ring` looks who is due, and sets it again for whoever is next. It may ring though nobody is due any more. */
  constructor(ring: () => void) {
    this.#ring = () => {
      this.#timer = undefined;
      this.#atMs = Infinity;
      ring();
    };
  }

  /** Rings in so many milliseconds at the latest. */
  within(delayMs: number): void {
    const atMs = performance.now() + delayMs;
    if (atMs < this.#atMs) {
      clearTimeout(this.#timer);
      this.#atMs = atMs;
      // Whoever happens to be the first must not lend its context to what is done for all.
      this.#timer = inOwnContext(() => setTimer(this.#ring, delayMs));
    } else if (this.#isResting) this.#timer?.ref();
    this.#isResting = false;
  }

  /** Nobody waits now: it keeps no process alive until somebody does. */
  rest(): void {
    this.#isResting = true;
    this.#timer?.unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#atMs = Infinity;
  }
}
