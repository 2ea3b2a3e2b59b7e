// Who was inside when, as the workers tell: how many read at the same time, and whether anybody was beside one who wrote.

import type { Worker } from '../support/crew.js';

/** One stay in the lock, or at work without one; times on the machine's monotonic clock. */
interface Stay {
  readonly writes: boolean;
  readonly enteredAtMs: number;
  readonly leftAtMs: number;
}

export class Stays {
  readonly #entered = new Map<Worker, number>();
  /** Those that are over. */
  readonly #past: Stay[] = [];
  #intrusions = 0;
  #mostReaders = 0;

  enter(worker: Worker, atMs: number): void {
    this.#entered.set(worker, atMs);
  }

  /** It was inside until then, if it was. */
  leave(worker: Worker, leftAtMs: number, writes: boolean): void {
    const enteredAtMs = this.#entered.get(worker);
    if (enteredAtMs === undefined) return;
    this.#entered.delete(worker);
    const stay = { writes, enteredAtMs, leftAtMs };
    const beside = this.#past.filter((other) => overlap(stay, other));
    this.#intrusions += beside.filter((other) => writes || other.writes).length;
    this.#past.push(stay);
    if (!writes) this.#mostReaders = Math.max(this.#mostReaders, this.#readersAlong(stay, beside));
  }

  /** How many read at the same time, at most. */
  get mostReaders(): number {
    return this.#mostReaders;
  }

  /** How often somebody was inside beside one who wrote. */
  get intrusions(): number {
    return this.#intrusions;
  }

  /** The most readers at a time during a stay; it is at its highest when one of them has just come in. */
  #readersAlong(stay: Stay, beside: readonly Stay[]): number {
    const readers = [stay, ...beside.filter(({ writes }) => !writes)];
    const at = (atMs: number): number =>
      readers.filter(({ enteredAtMs, leftAtMs }) => enteredAtMs <= atMs && atMs < leftAtMs).length;
    return Math.max(...readers.map(({ enteredAtMs }) => at(enteredAtMs)));
  }
}

function overlap(one: Stay, other: Stay): boolean {
  return one.enteredAtMs < other.leftAtMs && other.enteredAtMs < one.leftAtMs;
}
