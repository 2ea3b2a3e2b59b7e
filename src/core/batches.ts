// What is renewed in one call, and how many calls are sent at a time.

import { inOwnContext } from '../runtime/own-context.js';

/** Leases in one script call: enough that many cost few calls, few enough that one call takes well under 10 ms. */
const BATCH_SIZE = 500;

/**
 * In how many turns of the event loop all calls are sent at most: between them others get their turn, and what one turn needs is
 * garbage before the next. Few enough that the last one is sent well before its leases end, however long a turn is.
 */
const MOST_TURNS = 32;

/** Puts together what has the same key, in the order in which it comes. */
export function inBatches<T>(items: readonly T[], keyOf: (item: T) => string): T[][] {
  const open = new Map<string, T[]>();
  const batches: T[][] = [];
  for (const item of items) {
    const key = keyOf(item);
    let batch = open.get(key);
    if (!batch || batch.length === BATCH_SIZE) {
      batch = [];
      open.set(key, batch);
      batches.push(batch);
    }
    batch.push(item);
  }
  return batches;
}

/** Calls `send` for each, in order: for the first at once, for many of them in several turns of the event loop. */
export function inTurns<T>(items: readonly T[], send: (item: T) => void): void {
  const perTurn = Math.ceil(items.length / MOST_TURNS);
  const sendFrom = (start: number): void => {
    const end = start + perTurn;
    for (const item of items.slice(start, end)) send(item);
    if (end < items.length) inOwnContext(() => setImmediate(sendFrom, end));
  };
  sendFrom(0);
}
