// Acquisitions that are given up while their command is on its way: the server grants what nobody wants any more.
import type { Action } from './actions.js';
import type { Caller } from './caller.js';

export const DESERTIONS: readonly Action[] = [{ weight: 2, act: desert }];

/** What each of the two calls is noted as. */
export const DESERTION = 'desert';

/** Of a name that nobody has used; then the next one asks for it, who is kept out for as long as that grant stands. */
async function desert({ party, sections, watchdogMs, time }: Caller): Promise<void> {
  // Of a Redlock another rule is asked: what its masters gave in vain is in the way of whoever comes next.
  if (party.kind === 'red') return;
  const lock = party.ownLock(`given up by ${sections.nextId}`);
  const call = async (request: { wait: number } | { signal: AbortSignal }): Promise<void> => {
    const section = sections.call(DESERTION, party.clientId, lock, request);
    try {
      const held = await lock.lock.acquire(request);
      section.enter(held);
      section.leave();
      await held.release();
      section.end();
    } catch (error) {
      section.end(error);
    }
  };
  const aborter = new AbortController();
  const given = call({ signal: aborter.signal });
  // By then the command is sent, and no answer can have come.
  await time.nextTurn();
  aborter.abort();
  await given;
  await call({ wait: 3 * watchdogMs });
}
