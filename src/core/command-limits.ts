// Ends commands that stay unanswered for `commandTimeout`: they end in the order in which they were sent.

import type { Due, Schedule } from '../runtime/schedule.js';

/** A command that somebody waits for. */
interface Limited {
  /** It went unanswered for too long. */
  onOver(): void;
}

export class CommandLimits implements Due {
  readonly #limitMs: number;
  readonly #schedule: Schedule;
  /** When each ends, on the monotonic clock; the oldest first. */
  readonly #endsAtMs = new Map<Limited, number>();

  constructor(limitMs: number, schedule: Schedule) {
    this.#limitMs = limitMs;
    this.#schedule = schedule;
  }

  add(command: Limited): void {
    this.#endsAtMs.set(command, performance.now() + this.#limitMs);
    if (this.#endsAtMs.size === 1) this.#schedule.within(this, this.#limitMs);
  }

  /** It was answered, or is given up. */
  delete(command: Limited): void {
    this.#endsAtMs.delete(command);
    if (this.#endsAtMs.size === 0) this.#schedule.delete(this);
  }

  stop(): void {
    this.#schedule.delete(this);
  }

  due(): void {
    for (const [command, endsAtMs] of this.#endsAtMs) {
      const leftMs = endsAtMs - performance.now();
      if (leftMs > 0) {
        this.#schedule.within(this, leftMs);
        return;
      }
      this.delete(command);
      command.onOver();
    }
  }
}
