// For promises that must settle: a test that waits for one that never does says so itself.
import { setTimeout as sleep } from 'node:timers/promises';

export const NEVER: unique symbol = Symbol('it did not settle');

export async function settledWithin<T>(promise: Promise<T>, ms: number): Promise<T | typeof NEVER> {
  const limit = new AbortController();
  const { signal } = limit;
  try {
    return await Promise.race([
      promise,
      sleep(ms, NEVER, { signal }).catch((): typeof NEVER => NEVER),
    ]);
  } finally {
    limit.abort();
  }
}
