// Who is inside a critical section at once, gates between steps, and the instant in which a lock changes hands.
import { setImmediate } from 'node:timers'; // a test may have faked the global one
import { expect } from 'vitest';

/** The most that were ever inside at the same time. */
export class Occupancy {
  most = 0;
  readonly order: string[] = [];
  /** How many are inside. */
  now = 0;

  /** Runs `fn` inside; it should yield in between, so that others would have the chance to come in. */
  async inside<T>(who: string, fn: () => T | Promise<T>): Promise<T> {
    this.order.push(who);
    this.most = Math.max(this.most, ++this.now);
    try {
      return await fn();
    } finally {
      this.now--;
    }
  }
}

export interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
}

export function gate(): Gate {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

/** Lets everything happen that needs no timer. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    for (let step = 0; step < 100; step++) await Promise.resolve();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Fails unless the promise is still undecided after everything that needs no timer has happened. */
export async function expectPending(promise: Promise<unknown>): Promise<void> {
  let state = 'pending';
  promise.then(
    () => (state = 'resolved'),
    () => (state = 'rejected'),
  );
  await settle();
  expect(state).toBe('pending');
}

// The instant in which a waiter is given the lock, however fast the machine is: who gives up around it now has its turn and now has not.

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
