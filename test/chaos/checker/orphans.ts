// Owners that stand on a server though nobody of their client wants them, and nothing keeps them from being removed.
import { isDisturbed, type Evidence, type Violation } from './evidence.js';
import { grouped } from './grouped.js';
import type { Section } from './history.js';

/** How long removing them may take. */
const AT_ONCE_MS = 500;

export function orphans(evidence: Evidence): Violation[] {
  const { plan, history, looks } = evidence;
  const ofClient = grouped(history.sections.values(), clientOf);
  const owned = looks.flatMap((look) => look.holders.map(({ owner }) => ({ ...look, owner })));
  const standing = grouped(owned, ({ owner, lock, server }) => `${owner} ${lock} ${server}`);
  return [...standing.values()].flatMap((seen): Violation[] => {
    const [first] = seen;
    const last = seen.at(-1)!;
    const sections = (ofClient.get(clientOfOwner(first!.owner)) ?? []).filter(({ locks }) =>
      locks.includes(first!.lock),
    );
    const [any] = sections;
    if (!any) return [];
    // Since when no call of that client could want it any more.
    const until = Math.max(...sections.map((section) => wantedUntil(section, last.from)));
    const since = Math.max(until, first!.from);
    if (last.from - since < AT_ONCE_MS + plan.commandTimeoutMs) return [];
    if (isDisturbed(evidence, any, since, last.from)) return [];
    return [
      {
        rule: 'left behind',
        at: last.from,
        lock: last.lock,
        sections: [],
        message: `${last.owner} stood in "${last.lock}" for ${Math.round(last.from - since)} ms, and nobody of that client held it or called for it`,
      },
    ];
  });
}

/** Only calls that began before count; one that has not ended wants it still. */
function wantedUntil({ calledAt, endedAt = Infinity }: Section, at: number): number {
  return calledAt > at ? -Infinity : endedAt;
}

/** As in the names of owners: worker, incarnation, client, how often it was opened anew. */
function clientOf({ client }: Section): string {
  return client;
}

function clientOfOwner(owner: string): string {
  return owner.slice(0, owner.lastIndexOf(':')).replace(/m\d+$/, '');
}
