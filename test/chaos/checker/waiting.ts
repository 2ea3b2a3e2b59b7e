// Every waiter gets a turn: in order if the lock is fair, never later than its limit; and no call is refused without a reason.
import { isWeighted } from '../plan.js';
import {
  aftermathMs,
  isDisturbed,
  overlapMs,
  stoodStillMs,
  type Evidence,
  type Violation,
  violation,
  unnotedMsOf,
} from './evidence.js';
import type { Section } from './history.js';
import { heldBy } from './looks.js';
import { slowestAnswerMs } from './wake-ups.js';

/** The time that a busy machine may add to a limit. */
const LIMIT_SLACK_MS = 750;
/** How long after a report of a failed connection a client may be deaf. */
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
      const message = `${id} ${what} for ${Math.round(tookMs)} ms; ${limitMs} ms were allowed`;
      return [violation('a late call', until, message, [section])];
    });
  });
}

/** In a fair line, a section that called when another one was known to wait, and entered before it. */
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
          !isDisordered(evidence, lock, since, early.enteredAt!) &&
          !wantedTooMany(evidence, lock, late, since, early.enteredAt!) &&
          (!isWeighted(plan) || isKnownToBeLetInFirst(evidence, lock, early, late))
        );
      });
      if (!later) return [];
      const waitedMs = Math.round(early.enteredAt! - waitingSince.get(later.owner!)!);
      const message = `${early.id} called for "${lock}" while ${later.id} waited in line (for ${waitedMs} ms by then), and entered before it`;
      return [violation('an overtaking', early.enteredAt!, message, [later, early], lock)];
    });
  });
}

/** The semaphore had fewer permits for a while than it waits for: the server lets it go, and it comes back to its place. */
function wantedTooMany(
  { history }: Evidence,
  lock: string,
  { permits: wanted = 1 }: Section,
  from: number,
  until: number,
): boolean {
  return [...history.settings.values()].some(
    (setting) =>
      setting.lock === lock &&
      setting.permits < wanted &&
      setting.from <= until &&
      setting.until >= from,
  );
}

/** Its client reported a failed connection: a waiter that cannot be notified of a grant is passed over. */
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
      /connection to Redis \(.*\) failed/.test(message) &&
      overlapMs(at, at + RECONNECTS_WITHIN_MS, from, until) > 0,
  );
}

/** It was forced, or lost its line. */
function isDisordered(
  { history, plan, faults }: Evidence,
  lock: string,
  from: number,
  until: number,
): boolean {
  const forced = [...history.forcings.values()].filter(({ locks }) => locks.includes(lock));
  const disordered = faults.filter(({ disorders }) => disorders?.includes(lock));
  return [...forced, ...disordered].some(
    (each) => overlapMs(each.from, each.until + aftermathMs(plan), from, until) > 0,
  );
}

/** Several that are let in at a time enter in any order: at some instant the server named one of them, and not the other. */
function isKnownToBeLetInFirst(
  { looks }: Evidence,
  lock: string,
  early: Section,
  late: Section,
): boolean {
  return looks.some(
    (look) =>
      look.lock === lock &&
      look.until <= late.enteredAt! &&
      look.from >= early.calledAt &&
      heldBy(look, early.owner) &&
      !heldBy(look, late.owner),
  );
}

// Calls that fail as unavailable although nothing had been wrong for long.

/** A Redlock's master that was restarted last votes again by then as well. */
const SETTLED_MS = 500;
/** The part of that time that a server may have taken: it leaves enough even for a slow machine. */
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
    const message = `${id} ended with ${failure.code} (${failure.message}), and nothing had been wrong for ${Math.round(from - evidence.healedAt)} ms`;
    return [violation('a refusal for nothing', endedAt, message, [section])];
  });
}

/** All was healed long ago, no process was suspended, servers answered at once, and the client was open. */
function isQuiet(evidence: Evidence, section: Section, from: number, until: number): boolean {
  const { plan, history, ownLags, healedAt } = evidence;
  if (from < healedAt + aftermathMs(plan) + SETTLED_MS) return false;
  if (isDisturbed(evidence, section, from, until)) return false;
  const lags = [...history.lags, ...ownLags];
  if (lags.some(({ at, ms }) => overlapMs(at - ms, at, from, until) > 0)) return false;
  if ((history.closings.get(section.client)?.from ?? Infinity) <= until) return false;
  const limitMs = leastLimitMs(evidence, section);
  const isEnough = limitMs >= enoughMs(evidence);
  return isEnough && slowestAnswerMs(evidence, from, until) < SLOW * limitMs;
}

/**
 * A shorter time for the server may fail on any busy machine: the worker and its proxy may stand still, and the server be slow. (A worker
 * that stands still does not make a Redlock miss an answer.)
 */
function enoughMs(evidence: Evidence): number {
  return evidence.plan.kind === 'red' ? 150 : 100 + 2 * unnotedMsOf(evidence);
}

/** How long the server had at least for its answer. An answer that takes longer than the lease refuses the call. */
function leastLimitMs({ plan }: Evidence, { enteredAt, waitMs, leaseMs }: Section): number {
  const ofOne = plan.kind === 'red' ? plan.nodeTimeoutMs : plan.commandTimeoutMs;
  if (enteredAt !== undefined) return ofOne;
  return Math.min(ofOne, leaseMs, ...(waitMs ? [waitMs] : []));
}

/** Since all was healed, its client has held exactly these locks: so it has its connections. */
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
