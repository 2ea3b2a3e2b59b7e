// Holders of fenced locks that write when their lease is over, as a process does that was paused just before.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Action } from './actions.js';
import type { Caller } from './caller.js';

export const LATE_WRITES: readonly Action[] = [{ weight: 0.7, act: writeLate }];

/** Others may have had the lock meanwhile, and have written: then this write must be refused. */
async function writeLate({ party, random, sections, watchdogMs }: Caller): Promise<void> {
  const lock = party.someLock(random);
  const lease = random.whole(40, 120);
  const section = sections.call('acquire', party.clientId, lock, { lease });
  try {
    const acquired = await lock.lock.acquire({ lease });
    section.enter(acquired);
    await sleep(lease + random.between(0, watchdogMs / 2));
    await section.write();
    section.leave();
    await acquired.release();
    section.end();
  } catch (error) {
    section.end(error);
  }
}
