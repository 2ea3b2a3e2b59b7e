// Holders of fenced locks that write when their lease is over, as a process does that was paused just before.
import type { Action } from './actions.js';
import type { Caller } from './caller.js';
import type { PartyLock } from './party.js';

export const LATE_WRITES: readonly Action[] = [{ weight: 1, act: writeLate }];

/** Somebody has had the lock meanwhile, and has written: then this write must be refused. */
async function writeLate(caller: Caller): Promise<void> {
  const { party, random, sections, time } = caller;
  const lock = party.someLock(random);
  const lease = random.whole(40, 120);
  const section = sections.call('acquire', party.clientId, lock, { lease });
  try {
    const acquired = await lock.lock.acquire({ lease });
    section.enter(acquired);
    await time.sleep(lease);
    await writeNext(caller, lock);
    await section.write();
    section.leave();
    await acquired.release();
    section.end();
  } catch (error) {
    section.end(error);
  }
}

/** Where nobody else wants the lock, the same caller is the next to have it. */
async function writeNext({ party, sections, watchdogMs }: Caller, lock: PartyLock): Promise<void> {
  const request = { wait: 2 * watchdogMs };
  const section = sections.call('acquire', party.clientId, lock, request);
  try {
    const acquired = await lock.lock.acquire(request);
    section.enter(acquired);
    await section.write();
    section.leave();
    await acquired.release();
    section.end();
  } catch (error) {
    section.end(error);
  }
}
