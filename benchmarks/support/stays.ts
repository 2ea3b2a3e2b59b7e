// What the stays in a critical section say about its lock: how fast it changes hands, and how evenly.

import type { Stay } from './hand-over-messages.js';

/**
 * The stays that began while everybody competed: from when the last of the waiters had asked for the first time, up to
 * the stay of this number, before which nobody stops asking.
 */
export function whileAllCompete(stays: readonly Stay[], lastNumber: number): Stay[] {
  const firstAsked = new Map<number, number>();
  for (const { waiter, askedMs } of stays) {
    firstAsked.set(waiter, Math.min(askedMs, firstAsked.get(waiter) ?? Infinity));
  }
  const fromMs = Math.max(...firstAsked.values());
  return stays.filter(({ number, enteredMs }) => number <= lastNumber && enteredMs >= fromMs);
}

export function handOversPerSecond(stays: readonly Stay[]): number {
  return ((stays.length - 1) * 1_000) / (stays.at(-1)!.leftMs - stays[0]!.leftMs);
}

/** From the call of one release to the next one's return from acquire, in milliseconds. */
export function handOverTimes(stays: readonly Stay[]): number[] {
  return stays.slice(1).map((stay, i) => stay.enteredMs - stays[i]!.leftMs);
}

/** How many of the stays each waiter had. */
export function staysPerWaiter(stays: readonly Stay[], waiters: number): number[] {
  const counts = Array<number>(waiters).fill(0);
  for (const { waiter } of stays) counts[waiter]!++;
  return counts;
}
