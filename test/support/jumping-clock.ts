// A clock that jumps from timer to timer, as soon as nothing else can happen: hours take no time, and each run is the same.
import { setImmediate } from 'node:timers';
import type { Clock, Timer } from '../../src/runtime/clock.js';

/** After so many turns of the event loop in which no time passes, nothing more happens without a timer. */
const TURNS = 10;

interface Pending {
  readonly atMs: number;
  readonly callback: () => void;
}

export class JumpingClock implements Clock {
  #nowMs = 0;
  /** In the order in which they were set. */
  readonly #timers = new Map<object, Pending>();

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return Date.UTC(2030) + this.#nowMs;
  }

  setTimer(callback: () => void, delayMs: number): Timer {
    const timer: Timer = { ref: () => timer, unref: () => timer };
    this.#timers.set(timer, { callback, atMs: this.#nowMs + Math.max(delayMs, 1) });
    return timer;
  }

  clearTimer(timer: Timer | undefined): void {
    if (timer) this.#timers.delete(timer);
  }

  get timerCount(): number {
    return this.#timers.size;
  }

  /** Lets time pass until the promise is settled. */
  async until<T>(promise: Promise<T>): Promise<T> {
    const settled = promise.then(Boolean, Boolean).then(() => true);
    while (!(await Promise.race([turns(), settled])))
      if (!this.#jump(Infinity)) throw new Error('nothing is left to happen');
    return await promise;
  }

  async pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    do await turns();
    while (this.#jump(untilMs));
    this.#nowMs = untilMs;
  }

  /** Jumps to the next timer that is due by `untilMs`. Returns whether there was one. */
  #jump(untilMs: number): boolean {
    const [first] = [...this.#timers].sort(([, one], [, other]) => one.atMs - other.atMs);
    if (!first || first[1].atMs > untilMs) return false;
    const [timer, { atMs, callback }] = first;
    this.#timers.delete(timer);
    this.#nowMs = Math.max(this.#nowMs, atMs);
    callback();
    return true;
  }
}

/** Numbers from 0 to 1 that are the same in every run. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 16_807) % 2_147_483_647) / 2_147_483_647;
}

async function turns(): Promise<false> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
  return false;
}
