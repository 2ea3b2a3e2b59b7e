// Asks anew when a library gives up: whoever must have the lock would do the same.

import { setImmediate as nextTurn } from 'node:timers/promises';

/** Calls `acquire` until it succeeds; errors that are no refusals are thrown, and so is everything once it is over. */
export async function insist<T>(
  acquire: () => Promise<T>,
  isRefusal: (error: unknown) => boolean,
  isOver: () => boolean,
): Promise<T> {
  for (;;) {
    try {
      return await acquire();
    } catch (error) {
      if (!isRefusal(error) || isOver()) throw error;
      await nextTurn(); // one that refuses without asking the server must not keep the process to itself
    }
  }
}
