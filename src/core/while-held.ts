// Runs what a hold guards, and releases the hold whatever happens.

import type { OwnHold } from './own-hold.js';

/** An error of `fn` is what the caller sees; that the lock was lost only when `fn` succeeded. */
export async function whileHeld<T>(hold: OwnHold, fn: () => T | Promise<T>): Promise<T> {
  let result: T;
  try {
    result = await fn();
  } catch (error) {
    await hold.releaseQuietly().catch(() => undefined); // that it was lost is told by its signal and the event
    throw error;
  }
  await hold.releaseQuietly();
  return result;
}
