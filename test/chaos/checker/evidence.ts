// All evidence of a round for the checker, and which faults excuse which violations.
import type { Fault } from '../faults.js';
import type { Plan } from '../plan.js';
import type { Half } from '../worker/journal.js';
import { belief, type History, type Section } from './history.js';
import type { Look } from './looks.js';

export interface Evidence {
  readonly plan: Plan;
  readonly history: History;
  readonly faults: readonly Fault[];
  readonly looks: readonly Look[];
  /** When clients were not told of changed keys, if that is known; left out: the faults tell when that may have been. */
  readonly deafness?: readonly Deafness[];
  /** When everything was healed. */
  readonly healedAt: number;
  /** When the callers were told to stop. */
  readonly stoppedAt: number;
  /** How long a message may take to be heard on a machine that is busy; left out: as in the simulator. */
  readonly heardWithinMs?: number;
  /** For how long a process may stand still without anybody noticing; left out: as in the simulator. */
  readonly unnotedMs?: number;
  /** Times at which the campaign's own process was suspended: then nothing here can count as late. */
  readonly ownLags: readonly { readonly at: number; readonly ms: number }[];
}

/** A time in which one of the connections was not there, or did not do its work, by which a client is told of changed keys. */
export interface Deafness {
  readonly client: string;
  readonly from: number;
  readonly until: number;
}

/** A promise that was not kept. */
export interface Violation {
  readonly rule: string;
  readonly at: number;
  readonly message: string;
  /** The caller, client or lock that it is about. */
  readonly sections: readonly Section[];
  readonly lock?: string | undefined;
}

/** `lock`: by default the first of the section's locks. */
export function violation(
  rule: string,
  at: number,
  message: string,
  sections: readonly Section[] = [],
  lock = sections[0]?.locks[0],
): Violation {
  return { rule, at, message, sections, lock };
}

/** Keys of a lock may have vanished, or passed to other owners, within this time. */
export interface Loss {
  readonly from: number;
  readonly until: number;
  readonly locks: 'all' | readonly string[];
  /** Only readers, or only the writer. */
  readonly half?: Half | undefined;
  readonly why: string;
  /** A holder from before `from` has certainly lost the lock by `until`. */
  readonly isCertain: boolean;
  /** Its holders are told of it at once. */
  readonly isDeletion: boolean;
}

/** Other faults may or may not cost a key; this one does, if it is noted as a loss at all. */
export const RESTART_EMPTY = 'restart a server';

/** A command with an unknown outcome, such as a forceUnlock(), may still be under way for this long. */
export const LATE_COMMAND_MS = 4_000;

const TAKES_OVER = 'a replica takes over';

function isSoonAfter(at: number, former: number): boolean {
  return at >= former && at <= former + LATE_COMMAND_MS;
}

export function lossesOf({ faults, history, plan }: Evidence): Loss[] {
  const byFaults = faults.flatMap(({ loses, from, until, nemesis, ...fault }): Loss[] => {
    // A replica that takes over soon after may have missed it.
    const isUndone = faults.some(
      (other) => other.nemesis.startsWith(TAKES_OVER) && isSoonAfter(other.from, from),
    );
    const isCertain = (fault.isCertain ?? nemesis === RESTART_EMPTY) && !isUndone;
    const { isDeletion = false } = fault;
    return loses ? [{ from, until, locks: loses, why: nemesis, isCertain, isDeletion }] : [];
  });
  // A forceUnlock() of a Redlock succeeds without the masters that do not answer in time, or whose connection ends: to these it may still be
  // under way.
  const isOutOfReach = (from: number, until: number): boolean =>
    plan.topology === 'masters' &&
    (until - from >= plan.nodeTimeoutMs ||
      faults.some((fault) => fault.from <= until && fault.until >= from));
  const byForce = [...history.forcings.values()].map(({ locks, half, from, until, isKnown }) => ({
    from,
    until: until + (isKnown && !isOutOfReach(from, until) ? 0 : LATE_COMMAND_MS),
    locks,
    half,
    why: 'forceUnlock',
    isDeletion: true,
    // A server may also forget that a holder was forced out.
    isCertain:
      isKnown &&
      !byFaults.some((loss) => loss.from <= until + LATE_COMMAND_MS && loss.until >= from),
  }));
  return [...byFaults, ...byForce];
}

/** What the server granted to this section, or to the one around it, may have been lost in it, from `loss.from` on. */
export function isTouched(evidence: Evidence, section: Section, loss: Loss): boolean {
  const { history, plan } = evidence;
  if (isConfirmedSince(evidence, history.root(section), loss)) return false;
  // A reader that continues after the write lock was released outlives the section around it.
  return [history.root(section), section].some((each) => touches(loss, each, plan.watchdogMs));
}

/** For how long a process may stand still without its being noted, and so how late something may be written down. */
export function unnotedMsOf({ unnotedMs = 25 }: Evidence): number {
  return unnotedMs;
}

/**
 * Whether the server has confirmed it since the loss: no hold begins on a kept grant when that is longer ago than the lock is kept. A grant that
 * is to be kept, and is new, was asked for by its own call; its lease is a third of others'.
 */
function isConfirmedSince(
  evidence: Evidence,
  { mayBeKept, keptAt, owner, calledAt, enteredAt = Infinity, leftAtEntryMs = 0 }: Section,
  loss: Loss,
): boolean {
  const { keepMs = 0, watchdogMs } = evidence.plan;
  if (!mayBeKept) return false;
  if (keptAt !== undefined || owner === undefined)
    return enteredAt > loss.until + keepMs + unnotedMsOf(evidence);
  return leftAtEntryMs <= watchdogMs / 3 && calledAt > loss.until;
}

function touches(loss: Loss, section: Section, watchdogMs: number): boolean {
  if (loss.half !== undefined && loss.half !== section.half) return false;
  if (loss.locks !== 'all' && !section.locks.some((lock) => loss.locks.includes(lock)))
    return false;
  if (section.enteredAt === undefined) return false;
  const end = Math.max(belief(section)?.[1] ?? 0, section.endedAt ?? Infinity);
  // Who shows no owner may be on a grant that was kept: then only the rule above limits it.
  const isUnknown = section.mayBeKept === true && section.owner === undefined;
  return (isUnknown || grantedAfter(section, watchdogMs) <= loss.until) && end >= loss.from;
}

/** The server granted the lock no earlier than this: the lease counts from then at the earliest. */
export function grantedAfter(section: Section, watchdogMs: number): number {
  if (section.inherits) return grantedAfter(section.inherits, watchdogMs);
  const { enteredAt, leftAtEntryMs, calledAt, longestLeaseMs } = section;
  if (leftAtEntryMs === undefined) return calledAt;
  return enteredAt! + leftAtEntryMs - Math.max(longestLeaseMs, watchdogMs);
}

/** Whether the process of this worker was stopped, blocked or gone, and for how many milliseconds of this time. */
export function stoodStillMs(
  { faults, history, ownLags }: Evidence,
  { worker, process }: Pick<Section, 'worker' | 'process'>,
  from: number,
  until: number,
): number {
  const faulty = faults
    .filter(({ workers, nemesis }) => workers?.includes(worker) && !nemesis.includes('clock'))
    .map((fault) => overlapMs(fault.from, fault.until, from, until));
  const lags = [...history.lags.filter((lag) => lag.process === process), ...ownLags].map(
    ({ at, ms }) => overlapMs(at - ms - 100, at, from, until),
  );
  return [...faulty, ...lags].reduce((sum, ms) => sum + ms, 0);
}

export function overlapMs(from1: number, until1: number, from2: number, until2: number): number {
  return Math.max(0, Math.min(until1, until2) - Math.max(from1, from2));
}

/** When all processes had started, and the servers were looked at for the first time. */
export function startedAt({ looks }: Evidence): number {
  return looks[0]?.from ?? -Infinity;
}

/** How long a healed fault may have effects: until clients have reconnected and have their leases and places again. */
export function aftermathMs({ watchdogMs }: Plan): number {
  return 1_500 + 2 * watchdogMs;
}

/** Something happened within this time, or shortly before, to the process of this section, or to its servers. */
export function isDisturbed(
  { plan, faults, history, ownLags }: Evidence,
  { worker, clientIndex, process }: Section,
  from: number,
  until: number,
): boolean {
  const lags = [...history.lags.filter((lag) => lag.process === process), ...ownLags];
  return (
    lags.some(
      ({ at, ms }) => ms > plan.watchdogMs / 4 && overlapMs(at - ms, at, from, until) > 0,
    ) ||
    faults.some((fault) => {
      if (overlapMs(fault.from, fault.until + aftermathMs(plan), from, until) === 0) return false;
      const { workers, clients } = fault;
      if (workers) return workers.includes(worker);
      if (clients) return clients.includes(clientIndex);
      return true;
    })
  );
}
