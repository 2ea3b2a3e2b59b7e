// All is well, a caller waits, and there is room: then a caller enters at once.
import { isWeighted } from '../plan.js';
import {
  aftermathMs,
  overlapMs,
  stoodStillMs,
  type Evidence,
  type Violation,
  violation,
  startedAt,
} from './evidence.js';
import { grouped, type Section } from './history.js';
import { looksByOwner, type Look } from './looks.js';

const SLOW_WAKE_UP_MS = 150;

/** All is well: a caller waits, the lock is free, and nobody takes it. */
export function slowWakeUps(evidence: Evidence): Violation[] {
  const { plan, faults, healedAt, stoppedAt } = evidence;
  const gaps = isWeighted(plan)
    ? [...idlePermits(evidence), ...unheardGrants(evidence)]
    : plan.locks.flatMap((lock) => gapsOf(evidence, lock));
  // A replica may take over by itself when all is healed.
  const isCalm = ({ from, until }: Gap): boolean =>
    from > healedAt + aftermathMs(plan) &&
    until < stoppedAt + 10_000 &&
    !faults.some(
      (fault) => overlapMs(fault.from, fault.until + aftermathMs(plan), from, until) > 0,
    );
  const calm = gaps.filter(isCalm);
  const firstFaultAt = Math.min(healedAt, ...faults.map(({ from }) => from));
  const met = meetings(evidence).filter(
    (each) => isCalm(each) || (each.from >= startedAt(evidence) && each.until < firstFaultAt),
  );
  const isQuiet = (each: Gap): boolean => !stoodAnybodyStill(evidence, each);
  return [
    ...tooManySlow(calm.filter(isQuiet), 0.3, 'somebody waited'),
    ...tooManySlow(met.filter(isQuiet), 0.1, 'another client had just called'),
  ];
}

/** An overloaded machine delays everybody, also processes whose delays are too short to be noted. */
function stoodAnybodyStill({ history, ownLags }: Evidence, { from, until, next }: Gap): boolean {
  return [...history.lags, ...ownLags].some(
    ({ at, ms }) => overlapMs(at - ms, at, from, next?.enteredAt ?? until) > 0,
  );
}

function tooManySlow(gaps: readonly Gap[], share: number, who: string): Violation[] {
  const slow = gaps.filter(({ from, until }) => until - from > SLOW_WAKE_UP_MS);
  const [first] = slow;
  if (!first || slow.length < 3 || slow.length < share * gaps.length) return [];
  const sections = slow.slice(0, 5).flatMap(({ next }) => next ?? []);
  const message = `${slow.length} of ${gaps.length} times nobody entered for more than ${SLOW_WAKE_UP_MS} ms though the lock was free, ${who}, and all was well`;
  return [violation('nobody is woken', first.from, message, sections, first.lock)];
}

interface Gap {
  readonly lock: string;
  readonly from: number;
  readonly until: number;
  /** undefined: the waiter did not enter. */
  readonly next: Section | undefined;
}

/** The times in which there was room for the first in line, and nobody let it in. */
function idlePermits(evidence: Evidence): Gap[] {
  const sectionOf = new Map(evidence.history.entered.map((section) => [section.owner, section]));
  const byLock = grouped(evidence.looks, ({ server, lock }) => `${server} ${lock}`);
  return [...byLock.values()].flatMap((looks) =>
    runsOf(looks, roomFor).map(({ owner, first, last }) => {
      const next = sectionOf.get(owner);
      const until = last.from - 3 * slowestAnswerMs(evidence, first.from, last.until);
      return { lock: first.lock, from: first.until, until, next };
    }),
  );
}

/** The first in line, if as many permits as it wants are free. */
function roomFor({ holders, books }: Look): string | undefined {
  if (!books?.first) return undefined;
  const held = holders.reduce((sum, { count }) => sum + count, 0);
  return held + books.first.count <= books.capacity ? books.first.owner : undefined;
}

/** Consecutive queries with the same answer about the same owner. */
function runsOf(
  looks: readonly Look[],
  ownerIn: (look: Look) => string | undefined,
): { owner: string; first: Look; last: Look }[] {
  const runs: { owner: string; first: Look; last: Look }[] = [];
  let owner: string | undefined;
  for (const look of looks) {
    const before = owner;
    owner = ownerIn(look);
    if (owner === undefined) continue;
    if (owner === before) runs.at(-1)!.last = look;
    else runs.push({ owner, first: look, last: look });
  }
  return runs;
}

/** The times from when the server let a caller in until it entered. */
function unheardGrants(evidence: Evidence): Gap[] {
  const byOwner = looksByOwner(evidence.looks);
  return evidence.history.entered.flatMap((next): Gap[] => {
    if (next.inside !== undefined || next.owner === undefined) return [];
    const seen = byOwner.get(next.owner)?.[0]?.look;
    if (!seen || seen.from >= next.enteredAt!) return [];
    const { lock, from } = seen;
    const lagMs = stoodStillMs(evidence, next, from, next.enteredAt!);
    const answersMs = slowestAnswerMs(evidence, from, next.enteredAt!);
    return [{ lock, from, until: next.enteredAt! - lagMs - 3 * answersMs, next }];
  });
}

/** The times between a release and the next one's entry, where the next one waited already. */
function gapsOf(evidence: Evidence, lock: string): Gap[] {
  const { history } = evidence;
  // A MultiLock that has the lock sends no wake-up that others wait for, but the lock is not free meanwhile.
  const roots = history.entered.filter(
    ({ inside, locks }) => inside === undefined && locks.includes(lock),
  );
  const calls = [...history.sections.values()].filter(
    ({ inside, locks }) => inside === undefined && locks.includes(lock) && locks.length === 1,
  );
  return roots.flatMap((next, index): Gap[] => {
    const before = roots[index - 1];
    if (before?.endedAt === undefined || before.failure) return [];
    const from = Math.max(before.endedAt, next.calledAt);
    // A caller must have waited all the time; it need not be the one that acquired the lock.
    const waited = calls.some(
      ({ calledAt, enteredAt = Infinity, endedAt = Infinity }) =>
        calledAt < before.endedAt! - 50 && Math.min(enteredAt, endedAt) >= next.enteredAt!,
    );
    if (!waited || next.enteredAt! <= from) return [];
    return [gap(evidence, lock, from, next)];
  });
}

/** Two clients that met at a name of their own: from the first one's release to the second one's entry. */
function meetings(evidence: Evidence): Gap[] {
  const met = evidence.history.entered.filter(({ how }) => how === 'meet');
  return [...grouped(met, ({ locks }) => locks[0]!)].flatMap(([lock, [before, next]]): Gap[] => {
    if (before?.endedAt === undefined || before.failure || !next) return [];
    const from = Math.max(before.endedAt, next.calledAt);
    if (next.enteredAt! <= from) return [];
    // The first one had not to wait: a delay here, perhaps of connecting, is not the fault of a wake-up.
    const { until, ...rest } = gap(evidence, lock, from, next);
    return [{ ...rest, until: until - 2 * (before.enteredAt! - before.calledAt) }];
  });
}

/** Without the time that the machine took of it. */
function gap(evidence: Evidence, lock: string, from: number, next: Section): Gap {
  const lagMs = stoodStillMs(evidence, next, from, next.enteredAt!);
  const answersMs = slowestAnswerMs(evidence, from, next.enteredAt!);
  // A MultiLock may take the lock for a moment and release it, without ever entering.
  const taken = heldLooks(evidence.looks)
    .get(lock)
    ?.find((look) => look.from >= from);
  const until = Math.min(next.enteredAt! - lagMs - 3 * answersMs, taken?.until ?? Infinity);
  return { lock, from, until, next };
}

/** The longest answer time of the servers: a hand-over takes some answers. */
export function slowestAnswerMs({ looks }: Evidence, from: number, until: number): number {
  const meanwhile = slowLooks(looks).filter((look) => look.until > from && look.from < until);
  return Math.max(0, ...meanwhile.map((look) => look.until - look.from));
}

/** The queries that took any time. */
const slowLooks = once((looks: readonly Look[]) => looks.filter(({ from, until }) => until > from));

/** The queries at which a lock was held, by lock. */
const heldLooks = once((looks: readonly Look[]) =>
  grouped(
    // Where a client keeps it, perhaps nobody is inside.
    looks.filter(({ holders }) => holders.some(({ count }) => count !== -1)),
    ({ lock }) => lock,
  ),
);

/** Results from the queries of a round are computed once. */
function once<T>(find: (looks: readonly Look[]) => T): (looks: readonly Look[]) => T {
  const found = new WeakMap<readonly Look[], T>();
  return (looks) => {
    const known = found.get(looks);
    if (known !== undefined) return known;
    const value = find(looks);
    found.set(looks, value);
    return value;
  };
}
