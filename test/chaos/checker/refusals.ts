// Who is told that no server could be asked, though nothing had been wrong for long.
import { aftermathMs, isDisturbed, overlapMs, type Evidence, type Violation } from './evidence.js';
import type { Section } from './history.js';
import { slowestAnswerMs } from './wake-ups.js';

/** Also a master of a Redlock that has been restarted last votes again by then. */
const SETTLED_MS = 500;
/** Who gives a server less time than this is told so by any machine that has something to do. */
const LEAST_LIMIT_MS = 150;
/** The part of that time that a server may have taken: then also a machine that is slow leaves enough of it. */
const SLOW = 0.25;

const REFUSALS = new Set(['REDIS_UNAVAILABLE', 'NO_QUORUM']);

export function groundlessRefusals(evidence: Evidence): Violation[] {
  return [...evidence.history.sections.values()].flatMap((section): Violation[] => {
    const { failure, calledAt, enteredAt, leavingAt, endedAt, id } = section;
    if (!failure || !REFUSALS.has(failure.code)) return [];
    const from = enteredAt === undefined ? calledAt : leavingAt;
    if (from === undefined || endedAt === undefined) return [];
    if (!isQuiet(evidence, section, from, endedAt)) return [];
    if (!hadItBefore(evidence, section, from)) return [];
    return [
      {
        rule: 'a refusal for nothing',
        at: endedAt,
        lock: section.locks[0],
        sections: [section],
        message: `${id} ended with ${failure.code} (${failure.message}), and nothing had been wrong for ${Math.round(from - evidence.healedAt)} ms`,
      },
    ];
  });
}

/** All was healed long ago, nobody stood still for a moment, servers answered at once, and the client was open. */
function isQuiet(evidence: Evidence, section: Section, from: number, until: number): boolean {
  const { plan, history, ownLags, healedAt } = evidence;
  if (from < healedAt + aftermathMs(plan) + SETTLED_MS) return false;
  if (isDisturbed(evidence, section, from, until)) return false;
  const lags = [...history.lags, ...ownLags];
  if (lags.some(({ at, ms }) => overlapMs(at - ms, at, from, until) > 0)) return false;
  if ((history.closings.get(section.client)?.from ?? Infinity) <= until) return false;
  const limitMs = leastLimitMs(evidence, section);
  return limitMs >= LEAST_LIMIT_MS && slowestAnswerMs(evidence, from, until) < SLOW * limitMs;
}

/** How long the server was given at least for its answer. */
function leastLimitMs({ plan }: Evidence, { enteredAt, waitMs }: Section): number {
  const ofOne = plan.kind === 'red' ? plan.nodeTimeoutMs : plan.commandTimeoutMs;
  const ofCall = enteredAt === undefined && waitMs ? waitMs : Infinity;
  return Math.min(ofOne, ofCall);
}

/** Since all was healed, its client has had just these locks: so it has its connections. */
function hadItBefore({ history, healedAt }: Evidence, section: Section, at: number): boolean {
  return [...history.sections.values()].some(
    ({ client, locks, enteredAt = -Infinity, endedAt = Infinity, failure }) =>
      client === section.client &&
      enteredAt > healedAt &&
      endedAt < at &&
      !failure &&
      section.locks.every((lock) => locks.includes(lock)),
  );
}
