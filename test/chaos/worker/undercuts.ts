// Leases that are shorter than what is left: asked for inside a lock that is held for longer, or by who holds it.
import type { Hold } from '../../../src/index.js';
import type { Action } from './actions.js';
import type { Caller } from './caller.js';
import type { PartyLock } from './party.js';
import type { Section } from './section.js';

export const UNDERCUTS: readonly Action[] = [{ weight: 1, act: undercut }];

/** How long a holder stays when the short lease would have been over: a few looks at the server. */
export const STAYS_MS = 60;

/** The longer lease goes on, and its holder stays for longer than the shorter one. */
async function undercut(caller: Caller): Promise<void> {
  const { party, random, sections, watchdogMs } = caller;
  const lock = party.someLock(random);
  const lease = random.chance(0.5) ? random.whole(watchdogMs, 2 * watchdogMs) : undefined;
  const section = sections.call('undercut', party.clientId, lock, { lease });
  try {
    const held = await lock.lock.acquire({ lease });
    section.enter(held);
    const shortMs = random.whole(20, 80);
    if (random.chance(0.5)) await extendBy(shortMs, held, section);
    else await held.run(() => lockWithin(caller, lock, shortMs, section)).catch(() => undefined);
    await caller.time.sleep(shortMs + STAYS_MS);
    section.leave();
    await held.release();
    section.end();
  } catch (error) {
    section.end(error);
  }
}

export async function extendBy(
  leaseMs: number,
  held: Pick<Hold, 'extend'>,
  section: Section,
): Promise<void> {
  section.extending(leaseMs);
  await held.extend(leaseMs).catch(() => undefined); // a loss is told by the release, too
}

async function lockWithin(
  { party, sections }: Caller,
  lock: PartyLock,
  lease: number,
  outer: Section,
): Promise<void> {
  const section = sections.call('withLock', party.clientId, lock, { lease }, outer.id);
  try {
    await lock.lock.withLock({ lease }, (hold) => {
      section.enter(hold);
      section.leave();
    });
    section.end();
  } catch (error) {
    section.end(error);
  }
}
