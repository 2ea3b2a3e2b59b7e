// Of all processes, one leads. When the leader stops, dies or is cut off from Redis, another one leads.
import { setTimeout as sleep } from 'node:timers/promises';
import type { FencedHold, Holdfast } from '../../src/index.js';

/** Leads until `signal` aborts. Calls `hold.assertHeld()` right before each decisive step. */
export type Lead = (hold: FencedHold, signal: AbortSignal) => Promise<void>;

export async function standForElection(
  holdfast: Holdfast,
  office: string,
  lead: Lead,
  stop: AbortSignal,
): Promise<void> {
  const lock = holdfast.getFencedLock(office);
  for (;;) {
    try {
      await lock.withLock({ wait: Infinity, signal: stop }, async (hold) => {
        await lead(hold, AbortSignal.any([stop, hold.signal]));
      });
    } catch (error) {
      // The lock was lost, Redis could not be reached, or lead() failed.
      if (!stop.aborted) console.error(`not the leader of ${office}:`, error);
    }
    if (stop.aborted) return;
    await sleep(1_000, undefined, { signal: stop }).catch(() => undefined); // others may lead
  }
}
