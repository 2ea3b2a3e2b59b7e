// The token of a Redlock's holder is known by most masters when it has the lock; who was guarded then does not count.
import { grantedAfter, RESTART_EMPTY, type Evidence, type Violation } from './evidence.js';
import { grouped } from './grouped.js';
import { grantsByLock, type Grant } from './tokens.js';

/** A holder whose token too few masters had, for certain, when it entered. */
export function unknownTokens(evidence: Evidence): Violation[] {
  const { plan, looks } = evidence;
  if (!plan.fencing || plan.topology !== 'masters') return [];
  const tolerated = plan.masters - (Math.floor(plan.masters / 2) + 1);
  const looksByLock = grouped(looks, ({ lock }) => lock);
  return [...grantsByLock(evidence)].flatMap(([lock, grants]): Violation[] => {
    const ofLock = looksByLock.get(lock) ?? [];
    const servers = Array.from({ length: plan.masters }, (_, index) =>
      ofLock.filter(({ server }) => server === index),
    );
    return grants.flatMap((grant): Violation[] => {
      const wrong = servers.flatMap((ofServer, server) => {
        if (isGuarded(evidence, server, grant)) return [`${server} was guarded`];
        const look = ofServer.find(({ from }) => from > grant.enteredAt);
        if (!look || (look.counter ?? 0n) >= grant.token) return [];
        if (mayHaveForgotten(evidence, server, grant, look.until)) return [];
        return [`${server} knew ${String(look.counter ?? 'none')}`];
      });
      if (wrong.length <= tolerated) return [];
      const message = `${grant.id} had "${lock}" with the token ${grant.token}, which too few masters knew: master ${wrong.join(', master ')}`;
      return [
        { rule: 'a token too few know', at: grant.enteredAt, lock, sections: [grant], message },
      ];
    });
  });
}

/** Whether it had certainly been up for less than any guard when the holder's election ended, and before that began. */
function isGuarded({ faults, plan }: Evidence, server: number, grant: Grant): boolean {
  return faults.some(
    ({ nemesis, servers, from, until }) =>
      nemesis === RESTART_EMPTY &&
      servers?.includes(server) &&
      until <= grantedAfter(grant, plan.watchdogMs) &&
      grant.enteredAt < from + plan.watchdogMs,
  );
}

/** Whatever touches the server may have restarted it since. */
function mayHaveForgotten(
  { faults }: Evidence,
  server: number,
  grant: Grant,
  until: number,
): boolean {
  return faults.some(
    (fault) =>
      (fault.servers?.includes(server) ?? false) &&
      fault.from <= until &&
      fault.until >= grant.calledAt,
  );
}
