// A pause in which others may have what they were told of.

import { setTimer } from '../runtime/clock.js';

export class StandBack {
  #pause: NodeJS.Timeout | Promise<void> | undefined;

  get isOn(): boolean {
    return this.#pause !== undefined;
  }

  /** For so long, from now; then calls back. */
  begin(ms: number, over: () => void): void {
    this.end();
    this.#pause = setTimer(() => {
      this.#pause = undefined;
      over();
    }, ms);
  }

  /** For as long as two questions to the server and their answers take. */
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
    if (!(this.#pause instanceof Promise)) clearTimeout(this.#pause);
    this.#pause = undefined;
  }
}
