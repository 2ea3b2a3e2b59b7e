// How long this process was kept from running: on a busy machine, what a time limit must not be held against.
import { monitorEventLoopDelay } from 'node:perf_hooks';

export class EventLoopLag implements Disposable {
  readonly #delays = monitorEventLoopDelay({ resolution: 5 });

  constructor() {
    this.#delays.enable();
  }

  /** The longest time since the beginning in which nothing ran, in milliseconds. */
  get longestMs(): number {
    const longestMs = this.#delays.max / 1e6;
    return this.#delays.count > 0 ? longestMs : 0;
  }

  [Symbol.dispose](): void {
    this.#delays.disable();
  }
}
