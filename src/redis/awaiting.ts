// The calls that wait for one connection to be ready.

import type { UnavailableError } from '../api/errors.js';
import type { WaitLimit } from '../runtime/wait-limit.js';

interface Call {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  readonly isSingleAttempt: boolean;
}

export class Awaiting {
  readonly #calls = new Set<Call>();

  /** Resolves with `ready`; rejects with `fail`, or when the limit comes first. */
  async wait(limit: WaitLimit): Promise<void> {
    let call: Call | undefined;
    const ready = new Promise<void>((resolve, reject) => {
      call = { resolve, reject, isSingleAttempt: limit.isSingleAttempt };
      this.#calls.add(call);
    });
    try {
      await limit.within(ready);
    } finally {
      // An outage may be long: a call that has given up must leave nothing behind.
      if (call) this.#calls.delete(call);
    }
  }

  ready(): void {
    for (const { resolve } of this.#calls) resolve();
  }

  fail(error: Error): void {
    for (const { reject } of this.#calls) reject(error);
  }

  /** Returns a function that fails the calls that wait now for one attempt only; those that come later wait for the next. */
  singleAttempts(): (error: UnavailableError) => void {
    const calls = [...this.#calls].filter(({ isSingleAttempt }) => isSingleAttempt);
    return (error) => {
      for (const { reject } of calls) reject(error);
    };
  }
}
