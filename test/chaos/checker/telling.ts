// A loss is reported, in time and in all ways; and nothing else is reported as a loss.
import { isWeighted } from '../plan.js';
import { isListening, toldWithinMs } from './deletions.js';
import {
  isDisturbed,
  isTouched,
  lossesOf,
  type Evidence,
  type Violation,
  violation,
} from './evidence.js';
import type { Section } from './history.js';

/** The largest difference between readings of two clocks. */
const SLACK_MS = 25;

export function untoldLosses(evidence: Evidence): Violation[] {
  const { plan, history } = evidence;
  const losses = lossesOf(evidence);
  const lostOwners = new Set(history.lost.map(({ owner }) => owner));
  // A caller that re-enters a lock with a longer lease extends it for all its holds.
  const longestLeases = new Map<Section, number>();
  for (const section of history.entered) {
    const root = history.root(section);
    const longestMs = Math.max(longestLeases.get(root) ?? plan.watchdogMs, section.longestLeaseMs);
    longestLeases.set(root, longestMs);
  }
  const violations: Violation[] = [];
  const accuse = (section: Section, at: number, what: string): void => {
    const message = `${section.id} (${section.owner ?? section.how}) ${what}`;
    violations.push(violation('a loss that was not told', at, message, [section]));
  };
  for (const section of history.entered) {
    const { doubtedAt, leavingAt = Infinity, endedAt, failure, beliefs, owner } = section;
    const last = beliefs.at(-1)?.at ?? 0;
    if (section.contradicts)
      accuse(section, doubtedAt!, 'was told by remaining() and by its signal different things');
    if (doubtedAt !== undefined && last > doubtedAt)
      accuse(section, last, 'believed again after it had known of its loss');
    if (doubtedAt !== undefined && doubtedAt <= leavingAt && endedAt !== undefined && !failure)
      accuse(section, endedAt, 'had lost the lock, and its release succeeded');
    const isSingle = plan.kind !== 'multi' && plan.kind !== 'red';
    const hadTime = doubtedAt! + 1_000 < (history.lastNoteAt.get(section.process) ?? 0);
    if (isSingle && doubtedAt !== undefined && hadTime && !lostOwners.has(owner!))
      accuse(section, doubtedAt, 'had lost the lock, and no event said so');
    // A Redlock is lost with a majority, and its client repairs what one master lost.
    if (plan.kind === 'red') continue;
    for (const loss of losses.filter(({ isCertain }) => isCertain)) {
      const root = history.root(section);
      const { enteredAt: grantedBy } = root.inherits ?? root;
      if (!isTouched(evidence, section, loss) || grantedBy! > loss.from) continue;
      // A reader is forced out with the readers, and not with the writer.
      const isOfHalf = loss.half === root.half && (root.leavingAt ?? Infinity) > loss.until;
      if (loss.half !== undefined && !isOfHalf) continue;
      // Its lease was not extended since then.
      const endsAt = loss.until + longestLeases.get(root)!;
      // It is renewed, or checked, every third of the watchdog's timeout; then it must have known.
      const looksBy = loss.until + plan.watchdogMs / 2 + plan.commandTimeoutMs + TURN_MS;
      const isWell = !isDisturbed(evidence, section, loss.until, looksBy);
      // Permits and readers may lose a key of which nobody is told.
      const toldBy = loss.until + toldWithinMs(evidence, section, loss.until);
      const isTold =
        loss.isDeletion && !isWeighted(plan) && isListening(evidence, section, loss.until, toldBy);
      const knowsBy = Math.min(endsAt, isWell ? looksBy : Infinity, isTold ? toldBy : Infinity);
      if (last > knowsBy + SLACK_MS)
        accuse(
          section,
          last,
          `believed ${Math.round(last - loss.until)} ms after its key had gone (${loss.why})`,
        );
      // Who may keep the lock releases it without asking the server.
      if (
        !root.mayBeKept &&
        leavingAt > loss.until &&
        endedAt !== undefined &&
        !failure &&
        !isDisturbed(evidence, section, leavingAt, endedAt)
      )
        accuse(
          section,
          endedAt,
          `released what had gone (${loss.why}), and was told that all was well`,
        );
    }
  }
  return violations;
}

/** How long a busy process may take for a step. */
const TURN_MS = 250;

/** A loss is reported although the lease lasted, the key was there, and no noted event explains it. */
export function falseAlarms(evidence: Evidence): Violation[] {
  const { history } = evidence;
  const losses = lossesOf(evidence);
  return history.entered.flatMap((section): Violation[] => {
    const { doubtedAt, endedAt, failure, beliefs, client } = section;
    const lostAt = doubtedAt ?? (failure?.code === 'LOCK_LOST' ? endedAt : undefined);
    const lastBelief = beliefs.at(-1);
    if (lostAt === undefined || !lastBelief) return [];
    if (lostAt >= lastBelief.at + lastBelief.leftMs - SLACK_MS) return [];
    const root = history.root(section);
    const closing = [...history.closings.values()].find((each) => each.client === client);
    if (closing && closing.from <= lostAt) return [];
    const concerned = [section, ...history.entered.filter((each) => isHandingTo(section, each))];
    const isExplained = losses.some(
      (loss) => loss.from <= lostAt && concerned.some((each) => isTouched(evidence, each, loss)),
    );
    if (isExplained) return [];
    const excuse = evidence.faults.find(
      ({ endsHolds, from, until, workers }) =>
        endsHolds &&
        from <= lostAt &&
        until + 1_000 >= root.calledAt &&
        (workers?.includes(section.worker) ?? true),
    );
    if (excuse) return [];
    const leftMs = lastBelief.at + lastBelief.leftMs - lostAt;
    const message = `${section.id} (${section.owner ?? ''}) was told that it lost the lock (${failure?.reason ?? failure?.message ?? 'signal'}) ${Math.round(leftMs)} ms before its lease ended, and nothing explains it`;
    return [violation('a false alarm', lostAt, message, [section])];
  });
}

/** Whether this one had been lost, and its release, which learnt of that, named the section as its successor. */
function isHandingTo(section: Section, former: Section): boolean {
  const { leavingAt = Infinity, endedAt = -Infinity, failure, client, locks } = former;
  return (
    failure?.code === 'LOCK_LOST' &&
    client === section.client &&
    locks.some((lock) => section.locks.includes(lock)) &&
    leavingAt <= section.enteredAt! &&
    endedAt >= section.enteredAt!
  );
}
