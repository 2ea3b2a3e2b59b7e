// Kept locks: whoever wants a lock that another client keeps is heard, and a client that is gone, or on a new connection, keeps nothing.
import {
  isDisturbed,
  RESTART_EMPTY,
  stoodStillMs,
  unnotedMsOf,
  type Evidence,
  type Violation,
  violation,
} from './evidence.js';
import { grouped, type Section } from './history.js';
import { slowestAnswerMs } from './wake-ups.js';

/** How long a wish, or the end of a connection, may take to be heard. */
const HEARD_WITHIN_MS = 100;

/** A hold that began without a command, on the grant of an earlier one. */
interface Kept extends Section {
  readonly enteredAt: number;
  readonly inherits: Section & { readonly enteredAt: number };
}

function isKept(section: Section): section is Kept {
  return section.mayBeKept === true && section.inside === undefined && !!section.inherits;
}

/** Somebody of another client waited, all was well, and the lock went to its keeper's own next caller. */
export function passedOver(evidence: Evidence): Violation[] {
  const { history, heardWithinMs = HEARD_WITHIN_MS } = evidence;
  const kept = history.entered.filter(isKept);
  const calls = grouped(
    [...history.sections.values()].filter(({ inside }) => inside === undefined),
    ({ locks }) => locks[0]!,
  );
  return kept.flatMap((section): Violation[] => {
    const { enteredAt: at, inherits, client, locks, id } = section;
    const late = at - heardWithinMs;
    if (inherits.enteredAt > late) return [];
    const waiter = calls.get(locks[0]!)!.find((other) => {
      const { calledAt, enteredAt = Infinity, endedAt = Infinity } = other;
      if (other.client === client || calledAt > late || Math.min(enteredAt, endedAt) < at)
        return false;
      if ((history.lastNoteAt.get(other.process) ?? 0) < at) return false; // it was killed
      const since = Math.max(calledAt, inherits.enteredAt);
      if ([section, other].some((each) => isDisturbed(evidence, each, since, at))) return false;
      const both = section.process === other.process ? [section] : [section, other];
      const lagMs = both.reduce((sum, each) => sum + stoodStillMs(evidence, each, since, at), 0);
      return at - since - lagMs - 3 * slowestAnswerMs(evidence, since, at) > heardWithinMs;
    });
    if (!waiter) return [];
    const message = `${id} entered "${locks[0]!}" on a grant that its client had kept, though ${waiter.id} of another client waited for ${Math.round(at - waiter.calledAt)} ms`;
    return [violation('passed over', at, message, [waiter, section])];
  });
}

/** By how much less a lease is relied on for the sake of clocks that differ: a part of it, and some milliseconds. */
const DRIFT = 0.01;
const DRIFT_MS = 2;

/** A hold that began longer after the server's last word than its lock is kept: less of the lease was left than there must have been. */
export function oldProofs(evidence: Evidence): Violation[] {
  const { plan, history } = evidence;
  const { keepMs = 0, watchdogMs } = plan;
  return history.entered.flatMap((section): Violation[] => {
    const { inside, keptAt, enteredAt, leftAtEntryMs = 0, id } = section;
    if (inside !== undefined || keptAt === undefined) return [];
    // Its process was stopped as it began: nobody can tell how old the word was, and its caller knows that it is lost.
    if (leftAtEntryMs === 0) return [];
    const leftMs = leftAtEntryMs + enteredAt! - keptAt;
    const ageMs = (1 - DRIFT) * (watchdogMs / 3) - DRIFT_MS - leftMs;
    // Its process may have stood still after it had looked at the age, and before that was written down.
    const [lagMs = 0] = history.lags
      .filter(
        ({ process, at, ms }) => process === section.process && at >= keptAt && at - ms < keptAt,
      )
      .map(({ ms }) => ms);
    if (ageMs - lagMs <= keepMs + unnotedMsOf(evidence)) return [];
    const message = `${id} was given what its client had kept, which the server had not confirmed for ${Math.round(ageMs)} ms; ${keepMs} ms are allowed`;
    return [violation('an old proof', enteredAt!, message, [section])];
  });
}

/** A lock is marked as kept for longer than a keeper may have it that dies. */
export function longMarks({ plan, looks, faults }: Evidence): Violation[] {
  const { keepMs, watchdogMs } = plan;
  if (keepMs === undefined) return [];
  const steps = faults.filter(({ aheadMs }) => aheadMs !== undefined);
  const takeovers = faults.filter(({ nemesis }) => nemesis === 'a replica takes over in order');
  const look = looks.find(
    ({ holders, ttlMs, from, until }) =>
      ttlMs > watchdogMs / 3 &&
      holders.some(({ count }) => count === -1) &&
      // A clock that is set back prolongs every lease by as many milliseconds.
      !steps.some(
        (step) => step.from <= until && step.until + watchdogMs + Math.abs(step.aheadMs!) >= from,
      ) &&
      // A replica that takes over may have missed that the mark was taken away: then the renewals of the hold find it.
      !takeovers.some((over) => over.from <= until && over.until + 4 * watchdogMs >= from),
  );
  if (!look) return [];
  const message = `"${look.lock}" was kept by ${look.holders[0]!.owner} with a lease of ${look.ttlMs} ms, which is more than a third of ${watchdogMs} ms`;
  return [violation('kept for too long', look.from, message, [], look.lock)];
}

/** What ends the connections of clients, and so what they keep: wishes may have been missed, or the server may have forgotten them. */
const ENDS_CONNECTIONS = new Set([RESTART_EMPTY, 'CLIENT KILL', 'cut connections']);

/** A hold that began on a grant from before its client's connection was lost, when that was back. */
export function keptOverConnections(evidence: Evidence): Violation[] {
  const { plan, history, faults, heardWithinMs = HEARD_WITHIN_MS } = evidence;
  if (plan.topology !== 'single') return []; // who is connected to which server, nobody knows
  const ends = faults.filter(({ nemesis }) => ENDS_CONNECTIONS.has(nemesis));
  return history.entered.filter(isKept).flatMap((section): Violation[] => {
    const { enteredAt: at, inherits, clientIndex, id } = section;
    const end = ends.find(
      ({ clients, from, until }) =>
        (clients?.includes(clientIndex) ?? true) &&
        inherits.enteredAt < from &&
        at > until + heardWithinMs &&
        !isHindered(evidence, section, from, at),
    );
    if (!end) return [];
    const message = `${id} entered ${Math.round(at - end.until)} ms after "${end.nemesis}" on a grant from before it`;
    return [violation('kept over a connection', at, message, [inherits, section])];
  });
}

/** Whether its process stood still, or its links did not tell it that they had ended. */
function isHindered(evidence: Evidence, section: Section, from: number, until: number): boolean {
  const { faults } = evidence;
  return (
    stoodStillMs(evidence, section, from, until) > 0 ||
    faults.some(
      ({ nemesis, clients, ...fault }) =>
        clients?.includes(section.clientIndex) &&
        !ENDS_CONNECTIONS.has(nemesis) &&
        fault.from <= until &&
        fault.until >= from,
    )
  );
}
