// Told at once: a holder whose key was deleted, flushed, evicted or forced out does not go on for long beside the next one.
import {
  isTouched,
  lossesOf,
  overlapMs,
  stoodStillMs,
  unnotedMsOf,
  type Evidence,
  type Loss,
  type Violation,
  violation,
} from './evidence.js';
import { overlaps } from './exclusion.js';
import { belief, type Section } from './history.js';
import { slowestAnswerMs } from './wake-ups.js';
import { crowds, Room } from './weights.js';

/** How long after a deletion its holder may go on: a lock is looked at when it is a second old, and then told of within 50 ms. */
const TOLD_WITHIN_MS = 1_050;
/** The same for readers and permits, whose keys others change all the time. */
const SHARED_TOLD_WITHIN_MS = 2_000;
/** How long it takes to open the two connections again, beside what the pauses between attempts grow to while the fault lasts. */
const RECONNECTS_WITHIN_MS = 1_000;
const LONGEST_PAUSE = 1.25;

/** What happens to servers that ends no connection, and keeps no message back. */
const LEAVES_CONNECTIONS = new Set([
  'SCRIPT FLUSH',
  'memory is full',
  "step a server's wall clock",
]);

/** For how long this one may believe after it lost the lock by a deletion, when nothing is in the way of its being told. */
export function toldWithinMs(evidence: Evidence, section: Section, from: number): number {
  const isShared = section.permits !== undefined || section.half === 'read';
  const limitMs = isShared ? SHARED_TOLD_WITHIN_MS : TOLD_WITHIN_MS;
  const until = belief(section)?.[1] ?? from;
  const answersMs = 3 * slowestAnswerMs(evidence, from, until);
  const stillMs = stoodStillMs(evidence, section, from, until);
  return limitMs + stillMs + answersMs + unnotedMsOf(evidence);
}

/**
 * Whether both connections on which this holder is told were up from shortly before `from` on, until `until`: nothing had happened to its
 * links or to a server for as long as it takes to open them again.
 */
export function isListening(
  evidence: Evidence,
  section: Section,
  from: number,
  until: number,
): boolean {
  const { faults, history, deafness } = evidence;
  const { clientIndex, client } = section;
  if ((history.closings.get(client)?.from ?? Infinity) <= until) return false;
  if (deafness) {
    // What changed before the connections were there is found as soon as they are.
    const since = Math.max(from, until - toldWithinMs(evidence, section, from));
    return !deafness.some(
      (deaf) => deaf.client === client && deaf.from <= until && deaf.until >= since,
    );
  }
  return !faults.some((fault) => {
    const { workers, clients, nemesis } = fault;
    const reconnectsMs = RECONNECTS_WITHIN_MS + LONGEST_PAUSE * (fault.until - fault.from);
    if (workers || LEAVES_CONNECTIONS.has(nemesis)) return false;
    if (clients && !clients.includes(clientIndex)) return false;
    return overlapMs(fault.from, fault.until + reconnectsMs, from, until) > 0;
  });
}

const RULE = 'two holders for too long';

/** A holder that lost the lock by a deletion, and somebody else, for longer than it takes to tell it; which may be excused. */
interface TooLong {
  readonly violation: Violation;
  readonly deletions: readonly Loss[];
  readonly isExcused: boolean;
}

/** Those who are excused by their connections are left out. */
export function twoForTooLong(evidence: Evidence): Violation[] {
  return allTooLong(evidence)
    .filter(({ isExcused }) => !isExcused)
    .map((each) => each.violation);
}

/** How many deletions hit somebody who held, and how many of these are excused by connections that were not up. */
export function deletionsIn(evidence: Evidence): { hitCount: number; excusedCount: number } {
  const { entered } = evidence.history;
  const hits = lossesOf(evidence).filter(
    (loss) =>
      loss.isDeletion &&
      entered.some((section) => {
        const [from, until] = belief(section) ?? [Infinity, -Infinity];
        return from <= loss.from && until >= loss.from && isTouched(evidence, section, loss);
      }),
  );
  const excused = allTooLong(evidence).filter(({ isExcused }) => isExcused);
  const keys = new Set(excused.flatMap(({ deletions }) => deletions.map(keyOf)));
  return {
    hitCount: hits.length,
    excusedCount: hits.filter((loss) => keys.has(keyOf(loss))).length,
  };
}

function keyOf({ why, from }: Loss): string {
  return `${why} ${from}`;
}

function allTooLong(evidence: Evidence): TooLong[] {
  return [...pairsForTooLong(evidence), ...crowdsForTooLong(evidence)];
}

function pairsForTooLong(evidence: Evidence): TooLong[] {
  return overlaps(evidence).flatMap(({ lock, holders, from, until, losers }): TooLong[] => {
    // What else took the lock from one of them is told by other rules.
    if (losers.length === 0 || losers.some(({ loss }) => !loss.isDeletion)) return [];
    const allowances = losers.map(({ section }) => toldWithinMs(evidence, section, from));
    const allowedMs = Math.max(...allowances);
    if (until - from <= allowedMs) return [];
    const [one, other] = holders;
    const deletions = losers.map(({ loss }) => loss);
    const message = `both ${one.id} and ${other.id} believed for ${Math.round(until - from)} ms that they hold "${lock}", though it had been taken away (${deletions[0]!.why}); ${Math.round(allowedMs)} ms are allowed`;
    const isExcused = losers.some(({ section }) => !isListening(evidence, section, from, until));
    return [
      {
        violation: violation(RULE, from + allowedMs, message, holders, lock),
        deletions,
        isExcused,
      },
    ];
  });
}

/** Of a semaphore: more permits than there are, all of them believed in for too long after the last of them was let in. */
function crowdsForTooLong(evidence: Evidence): TooLong[] {
  const room = new Room(evidence);
  return crowds(evidence).flatMap(({ lock, at, inside }): TooLong[] => {
    const losers = inside.filter(({ losses }) => losses.some(({ isDeletion }) => isDeletion));
    if (losers.length === 0) return [];
    const allowances = losers.map(({ section }) => toldWithinMs(evidence, section, at));
    const allowedMs = Math.max(...allowances);
    const holders = inside
      .filter(({ until }) => until - at > allowedMs)
      .filter(({ losses }) => losses.every(({ isDeletion }) => isDeletion));
    if (!holders.includes(inside.at(-1)!)) return []; // whoever came is judged by when it came
    const sections = holders.map(({ section }) => section);
    const excess = room.excess(lock, at, sections);
    if (!excess) return [];
    const deletions = holders.flatMap(({ losses }) => losses);
    if (deletions.length === 0) return [];
    const message = `${excess.ids} believed for more than ${Math.round(allowedMs)} ms that they hold ${excess.held} permits of "${lock}", of which there were ${excess.most}, though some had been taken away (${deletions[0]!.why})`;
    const isExcused = holders.some(
      ({ section, losses, until }) =>
        losses.length > 0 && !isListening(evidence, section, at, until),
    );
    return [
      { violation: violation(RULE, at + allowedMs, message, sections, lock), deletions, isExcused },
    ];
  });
}
