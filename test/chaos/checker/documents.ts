// What fenced locks are for: a document that refuses older tokens takes nothing from who has lost the lock, and all from who has it.
import { isTouched, lossesOf, type Evidence, type Violation } from './evidence.js';
import { grouped } from './grouped.js';
import { belief, type Section, type Write } from './history.js';
import { GrantOrder, type Grant } from './tokens.js';

interface Written extends Write {
  readonly section: Section;
  /** Whose token it shows. */
  readonly grant: Grant;
}

/** A write that was accepted though somebody who was given the lock later had written before. */
export function staleWrites(evidence: Evidence): Violation[] {
  const order = new GrantOrder(evidence);
  const byLock = grouped(writesOf(evidence).filter(isAccepted), ({ grant }) => grant.locks[0]!);
  return [...byLock].flatMap(([lock, writes]) =>
    writes.flatMap((stale): Violation[] => {
      const newer = writes.find(
        ({ until, grant }) =>
          until < stale.from &&
          (grant.token > stale.grant.token ||
            (order.isBefore(stale.grant, grant) && !order.isExcused(stale.grant, grant))),
      );
      if (!newer) return [];
      const message = `${stale.section.id} wrote to the document of "${lock}" after ${newer.section.id}, which was given the lock later, and was not refused`;
      const sections = [stale.section, newer.section];
      return [{ rule: 'a stale write', at: stale.from, lock, sections, message }];
    }),
  );
}

/** A write that was refused though its writer believed before and after it, and nothing excuses that. */
export function refusedHolders(evidence: Evidence): Violation[] {
  const order = new GrantOrder(evidence);
  const losses = lossesOf(evidence);
  const writes = writesOf(evidence);
  return writes.flatMap(({ section, grant, from, until, refusedBy }): Violation[] => {
    const believed = belief(section);
    if (refusedBy === undefined || !believed) return [];
    if (believed[0] > from || believed[1] < until) return [];
    const isLost = losses.some((loss) => isTouched(evidence, grant, loss) && loss.from <= until);
    const early = writes.find((each) => each.grant.token === refusedBy);
    if (isLost || (early && order.isExcused(early.grant, grant))) return [];
    const [lock] = section.locks;
    const message = `${section.id} held "${lock!}", and was refused with ${grant.token}, since the document had seen ${refusedBy}`;
    return [{ rule: 'a refused holder', at: from, lock, sections: [section], message }];
  });
}

function writesOf({ history }: Evidence): Written[] {
  return history.entered.flatMap((section) => {
    const grant = history.root(section);
    if (grant.token === undefined || grant.enteredAt === undefined) return [];
    return section.writes.map((write) => ({ ...write, section, grant: grant as Grant }));
  });
}

/** It is known to be. */
function isAccepted({ until, refusedBy }: Write): boolean {
  return until !== Infinity && refusedBy === undefined;
}
