// What is renewed in one call, and how many calls are sent at a time.

import { elapsedMs, now } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';

/** Leases in one script call: enough that many cost few calls, few enough that one call takes well under 10 ms. */
const BATCH_SIZE = 500;

/**
 * In how many turns of the event loop all calls are sent at most: between them others get their turn, and what one turn needs is
 * garbage before the next.
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

/**
 * Calls `send` for each, in order: for the first at once, for many of them in several turns of the event loop. When those have taken
 * `limitMs`, as they do in a process that is busy, all that are left have theirs in one: their leases would end meanwhile.
 */
export function inTurns<T>(items: readonly T[], limitMs: number, send: (item: T) => void): void {
  const perTurn = Math.ceil(items.length / MOST_TURNS);
  const beganAt = now();
  const sendFrom = (start: number): void => {
    const end = elapsedMs(beganAt) < limitMs ? start + perTurn : items.length;
    for (const item of items.slice(start, end)) send(item);
    if (end < items.length) inOwnContext(() => setImmediate(sendFrom, end));
  };
  sendFrom(0);
}
