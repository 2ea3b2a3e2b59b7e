// Two clients that ask for a lock of their own at the same time: of the masters of a Redlock each may get some, and one after the
// other most.
import type { Action } from './actions.js';
import type { Caller, Partner } from './caller.js';
import type { PartyLock } from './party.js';

export const RACES: readonly Action[] = [{ weight: 3, act: race }];

async function race({ party, rival, random, sections, watchdogMs }: Caller): Promise<void> {
  if (!rival) return;
  const names = [`race of ${sections.nextId}`];
  const runners = [{ party, sections }, rival];
  await Promise.all(
    runners.map((runner) => take(runner, runner.party.lock(names, false, random), watchdogMs)),
  );
}

async function take({ party, sections }: Partner, lock: PartyLock, wait: number): Promise<void> {
  const section = sections.call('acquire', party.clientId, lock, { wait });
  try {
    const acquired = await lock.lock.acquire({ wait });
    section.enter(acquired);
    section.leave();
    await acquired.release();
    section.end();
  } catch (error) {
    section.end(error);
  }
}
