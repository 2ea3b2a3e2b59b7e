// Counts who is inside a critical section at once, and lets tests open gates between steps.
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
  for (let turn = 0; turn < 100; turn++) await Promise.resolve();
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
