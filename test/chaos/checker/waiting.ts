// Who waits gets a turn: in order where the lock is fair, woken when it is free, and never for longer than it said.
import {
  aftermathMs,
  isDisturbed,
  overlapMs,
  stoodStillMs,
  type Evidence,
  type Violation,
} from './evidence.js';
import { grouped } from './grouped.js';
import type { Section } from './history.js';

/** What a busy machine may add to a time limit. */
const LIMIT_SLACK_MS = 750;
const SLOW_WAKE_UP_MS = 150;
/** How long after it said that a connection failed a client may be deaf. */
const RECONNECTS_WITHIN_MS = 2_000;

/** A call, or a release, that took longer than it may. */
export function lateCalls(evidence: Evidence): Violation[] {
  const { plan, history } = evidence;
  return [...history.sections.values()].flatMap((section): Violation[] => {
    const { calledAt, enteredAt, endedAt, leavingAt, waitMs, id } = section;
    const settledAt = enteredAt ?? endedAt;
    const waitLimitMs = waitMs === undefined ? Infinity : Math.max(waitMs, plan.commandTimeoutMs);
    const spans = [
      { what: 'waited', from: calledAt, until: settledAt, limitMs: waitLimitMs },
      { what: 'was released', from: leavingAt, until: endedAt, limitMs: plan.commandTimeoutMs },
    ];
    return spans.flatMap(({ what, from, until, limitMs }) => {
      if (from === undefined || until === undefined) return [];
      const tookMs = until - from;
      if (tookMs <= limitMs + LIMIT_SLACK_MS) return [];
      if (tookMs - stoodStillMs(evidence, section, from, until) <= limitMs + LIMIT_SLACK_MS)
        return [];
      return [
        {
          rule: 'a late call',
          at: until,
          lock: section.locks[0],
          sections: [section],
          message: `${id} ${what} for ${Math.round(tookMs)} ms; ${limitMs} ms were allowed`,
        },
      ];
    });
  });
}

/** In a fair line, somebody who called when another one was known to wait, and entered before. */
export function overtakings(evidence: Evidence): Violation[] {
  const { history, plan } = evidence;
  const waitingSince = new Map<string, number>();
  for (const { owner, at } of history.waiting) {
    if (!waitingSince.has(owner)) waitingSince.set(owner, at);
  }
  const fair = history.entered.filter(({ isFair, inside }) => isFair && inside === undefined);
  return plan.locks.flatMap((lock) => {
    const here = fair.filter(({ locks }) => locks.includes(lock));
    return here.flatMap((early, index): Violation[] => {
      const later = here.slice(index + 1).find((late) => {
        const since = late.owner === undefined ? undefined : waitingSince.get(late.owner);
        if (since === undefined || since >= early.calledAt) return false;
        return (
          !isDisturbed(evidence, late, since, early.enteredAt!) &&
          !hasLostConnection(evidence, late, since, early.enteredAt!) &&
          !isForced(evidence, lock, since, early.enteredAt!)
        );
      });
      if (!later) return [];
      return [
        {
          rule: 'an overtaking',
          at: early.enteredAt!,
          lock,
          sections: [later, early],
          message: `${early.id} called for "${lock}" while ${later.id} waited in line, and entered before it`,
        },
      ];
    });
  });
}

/** Its client said that a connection of its own had failed: whom nobody can tell of a grant is passed over. */
function hasLostConnection(
  { history }: Evidence,
  { process, client }: Section,
  from: number,
  until: number,
): boolean {
  return history.warnings.some(
    ({ at, message, ...warned }) =>
      warned.process === process &&
      message.startsWith(`${client}: `) &&
      message.includes('connection to Redis failed') &&
      overlapMs(at, at + RECONNECTS_WITHIN_MS, from, until) > 0,
  );
}

function isForced({ history, plan }: Evidence, lock: string, from: number, until: number): boolean {
  return [...history.forcings.values()].some(
    (force) =>
      force.locks.includes(lock) &&
      overlapMs(force.from, force.until + aftermathMs(plan), from, until) > 0,
  );
}

/** All is well: somebody waits, the lock is free, and nobody takes it. */
export function slowWakeUps(evidence: Evidence): Violation[] {
  const { plan, faults, healedAt, stoppedAt } = evidence;
  const gaps = plan.locks.flatMap((lock) => gapsOf(evidence, lock));
  const calm = gaps.filter(
    ({ from, until }) => from > healedAt + aftermathMs(plan) && until < stoppedAt + 10_000,
  );
  const firstFaultAt = Math.min(healedAt, ...faults.map(({ from }) => from));
  const met = meetings(evidence).filter(
    ({ from, until }) =>
      until < firstFaultAt || (from > healedAt + aftermathMs(plan) && until < stoppedAt + 10_000),
  );
  const isQuiet = (each: Gap): boolean => !stoodAnybodyStill(evidence, each);
  return [
    ...tooManySlow(calm.filter(isQuiet), 0.3, 'somebody waited'),
    ...tooManySlow(met.filter(isQuiet), 0.1, 'another client had just called'),
  ];
}

/** A machine that has more to do than it can lets everybody wait, also those who stand still for too short a time to be noted. */
function stoodAnybodyStill({ history, ownLags }: Evidence, { from, next }: Gap): boolean {
  return [...history.lags, ...ownLags].some(
    ({ at, ms }) => overlapMs(at - ms, at, from, next.enteredAt!) > 0,
  );
}

function tooManySlow(gaps: readonly Gap[], share: number, who: string): Violation[] {
  const slow = gaps.filter(({ from, until }) => until - from > SLOW_WAKE_UP_MS);
  const [first] = slow;
  if (!first || slow.length < 3 || slow.length < share * gaps.length) return [];
  return [
    {
      rule: 'nobody is woken',
      at: first.from,
      lock: first.lock,
      sections: slow.slice(0, 5).map(({ next }) => next),
      message: `${slow.length} of ${gaps.length} times nobody entered for more than ${SLOW_WAKE_UP_MS} ms though the lock was free, ${who}, and all was well`,
    },
  ];
}

interface Gap {
  readonly lock: string;
  readonly from: number;
  readonly until: number;
  readonly next: Section;
}

/** The times between a release and the next one's entry, where the next one waited already. */
function gapsOf(evidence: Evidence, lock: string): Gap[] {
  const { history } = evidence;
  // A lock of several that has it is not what somebody waits for a wake-up from, but the lock is not free meanwhile.
  const roots = history.entered.filter(
    ({ inside, locks }) => inside === undefined && locks.includes(lock),
  );
  return roots.flatMap((next, index): Gap[] => {
    const before = roots[index - 1];
    if (before?.endedAt === undefined || before.failure) return [];
    const from = Math.max(before.endedAt, next.calledAt);
    // Somebody must have waited all the time; it need not be the one who got it.
    const waited = [...history.sections.values()].some(
      ({ calledAt, inside, locks, enteredAt = Infinity, endedAt = Infinity }) =>
        inside === undefined &&
        locks.includes(lock) &&
        locks.length === 1 &&
        calledAt < before.endedAt! - 50 &&
        Math.min(enteredAt, endedAt) >= next.enteredAt!,
    );
    if (!waited || next.enteredAt! <= from) return [];
    return [gap(evidence, lock, from, next)];
  });
}

/** Two clients who met at a name of their own: from the first one's release to the second one's entry. */
function meetings(evidence: Evidence): Gap[] {
  const met = evidence.history.entered.filter(({ how }) => how === 'meet');
  return [...grouped(met, ({ locks }) => locks[0]!)].flatMap(([lock, [before, next]]): Gap[] => {
    if (before?.endedAt === undefined || before.failure || !next) return [];
    const from = Math.max(before.endedAt, next.calledAt);
    return next.enteredAt! <= from ? [] : [gap(evidence, lock, from, next)];
  });
}

/** Without what the machine took of it. */
function gap(evidence: Evidence, lock: string, from: number, next: Section): Gap {
  const lagMs = stoodStillMs(evidence, next, from, next.enteredAt!);
  const answersMs = slowestAnswerMs(evidence, from, next.enteredAt!);
  // A lock of several may take it for a moment and give it back, without ever entering.
  const taken = evidence.looks.find(
    (look) => look.lock === lock && look.owner !== undefined && look.from >= from,
  );
  const until = Math.min(next.enteredAt! - lagMs - 3 * answersMs, taken?.until ?? Infinity);
  return { lock, from, until, next };
}

/** How long the servers took to answer at most: a hand-over takes some answers. */
function slowestAnswerMs({ looks }: Evidence, from: number, until: number): number {
  const meanwhile = looks.filter((look) => look.until > from && look.from < until);
  return Math.max(0, ...meanwhile.map((look) => look.until - look.from));
}
