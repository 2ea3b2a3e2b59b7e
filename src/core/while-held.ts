// Runs what a hold guards, and releases the hold whatever happens.

import type { OwnHold } from './own-hold.js';

/** Rejects with the error of `fn` if it fails; with the loss of the lock only if `fn` succeeded. */
export async function whileHeld<Held extends OwnHold, T>(
  acquiring: Promise<Held>,
  fn: (hold: Held) => T | Promise<T>,
): Promise<T> {
  const hold = await acquiring;
  let result: T;
  try {
    result = await fn(hold);
  } catch (error) {
    await hold.releaseQuietly().catch(() => undefined); // that it was lost is told by its signal and the event
    throw error;
  }
  await hold.releaseQuietly();
  return result;
}
