// The token of a Redlock's holder is known by most masters when it has the lock; who was guarded then does not count.
import { grantedAfter, RESTART_EMPTY, type Evidence, type Violation } from './evidence.js';
import { grantsByLock, type Grant } from './tokens.js';

/** A holder whose token too few masters knew, for certain, while it had the lock. */
export function unknownTokens(evidence: Evidence): Violation[] {
  const { plan } = evidence;
  if (!plan.fencing || plan.topology !== 'masters') return [];
  const tolerated = plan.masters - (Math.floor(plan.masters / 2) + 1);
  return [...grantsByLock(evidence)].flatMap(([lock, grants]): Violation[] => {
    return grants.flatMap((grant): Violation[] => {
      const [heard] = grant.heard;
      if (!heard) return [];
      const wrong = heard.counters.flatMap((counter, server) => {
        if (isGuarded(evidence, server, grant)) return [`${server} was guarded`];
        if (counter === undefined || counter >= grant.token) return [];
        if (mayHaveForgotten(evidence, server, grant, heard.at)) return [];
        return [`${server} knew ${counter}`];
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
