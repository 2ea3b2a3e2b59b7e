// Ends commands that stay unanswered for `commandTimeout`, by one timer for all: they end in the order in which they were sent.

import { Alarm } from '../runtime/alarm.js';

/** A command that somebody waits for. */
interface Limited {
  /** It went unanswered for too long. */
  onOver(): void;
}

export class CommandLimits {
  readonly #limitMs: number;
  /** When each ends, on the monotonic clock; the oldest first. */
  readonly #endsAtMs = new Map<Limited, number>();
  readonly #alarm = new Alarm(() => {
    this.#check();
  });

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  add(command: Limited): void {
    this.#endsAtMs.set(command, performance.now() + this.#limitMs);
    if (this.#endsAtMs.size === 1) this.#alarm.within(this.#limitMs);
  }

  /** It was answered, or is given up. */
  delete(command: Limited): void {
    this.#endsAtMs.delete(command);
    if (this.#endsAtMs.size === 0) this.#alarm.rest();
  }

  stop(): void {
    this.#alarm.stop();
  }

  #check(): void {
    for (const [command, endsAtMs] of this.#endsAtMs) {
      const leftMs = endsAtMs - performance.now();
      if (leftMs > 0) {
        this.#alarm.within(leftMs);
        return;
      }
      this.delete(command);
      command.onOver();
    }
  }
}
