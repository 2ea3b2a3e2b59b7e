// The instant in which a waiter is given the lock, however fast the machine is: who gives up around it now has its turn and now has not.
import { expect } from 'vitest';

export class Instant {
  /** How long after the release the waiter is to give up, in milliseconds. */
  afterMs = 1;
  readonly #outcomes = new Set<boolean>();

  async passes(): Promise<void> {
    const untilMs = performance.now() + this.afterMs;
    while (performance.now() < untilMs) await new Promise(setImmediate);
  }

  /** The next one gives up a little sooner after it had its turn, and a little later if not. */
  was(hadTurn: boolean): void {
    this.#outcomes.add(hadTurn);
    this.afterMs = hadTurn ? this.afterMs * 0.7 : this.afterMs * 1.3 + 0.05;
  }

  wasMet(): void {
    expect([...this.#outcomes].sort()).toEqual([false, true]);
  }
}
