// Puts renewals together into batches of one script call each, and spreads those calls over turns of the event loop.

import { elapsedMs, now, type Clock } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';

/** Leases in one script call: enough that many cost few calls, few enough that one call takes well under 10 ms. */
const BATCH_SIZE = 500;

/**
 * The most turns of the event loop over which calls are spread: other work runs between them, and what one turn allocates is garbage
 * before the next.
 */
const MOST_TURNS = 32;

/** Groups items by their key, in their order, into batches of at most BATCH_SIZE. */
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

/**
 * Calls `send` for each item, in order: for the first ones at once, for the others in later turns of the event loop. When `limitMs`
 * have gone by, as they may in a busy process, all that are left are sent in one turn: their leases could end meanwhile.
 */
export function inTurns<T>(
  items: readonly T[],
  clock: Clock,
  limitMs: number,
  send: (item: T) => void,
): void {
  const perTurn = Math.ceil(items.length / MOST_TURNS);
  const beganAt = now(clock);
  const sendFrom = (start: number): void => {
    const end = elapsedMs(beganAt) < limitMs ? start + perTurn : items.length;
    for (const item of items.slice(start, end)) send(item);
    if (end < items.length) inOwnContext(() => setImmediate(sendFrom, end));
  };
  sendFrom(0);
}
