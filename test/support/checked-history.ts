// Histories of the fault campaign for its checker: who called, entered, believed, left, and which rules that breaks.
import { check } from '../chaos/checker/check.js';
import type { Evidence, Violation } from '../chaos/checker/evidence.js';
import { History } from '../chaos/checker/history.js';
import type { Look } from '../chaos/checker/looks.js';
import type { Fault } from '../chaos/faults.js';
import { planRound } from '../chaos/plan-round.js';
import type { Plan } from '../chaos/plan.js';
import type { Half, Note } from '../chaos/worker/journal.js';

/** The one that the round is about. */
export const LOCK = 'x';
export const CALL = {
  what: 'call',
  how: 'acquire',
  client: 'w0.0.c0.0',
  locks: [LOCK],
  isFair: false,
  leaseMs: 1_000,
  isWatched: true,
} as const;
const PLAN = {
  ...planRound('reentrant', 1),
  locks: [LOCK],
  watchdogMs: 1_000,
  topology: 'single',
} as const;

export type Noted = readonly [at: number, note: Note];

interface HeldMore {
  readonly isFair?: boolean;
  readonly half?: Half;
  readonly permits?: number;
  readonly atLeastMs?: number;
  readonly inside?: string;
  readonly locks?: readonly string[];
  readonly token?: string;
}

/** One that called, entered, believed until then, and left. */
export function held(
  id: string,
  from: number,
  until: number,
  { token, ...more }: HeldMore = {},
): Noted[] {
  return [
    [from - 1, { ...CALL, ...more, id }],
    [from, { what: 'entered', id, owner: `${id}:1`, leftMs: 988, token }],
    [until, { what: 'believes', id, leftMs: 988 - (until - from) }],
    [until + 1, { what: 'leaving', id }],
    [until + 2, { what: 'left', id }],
  ];
}

/** Of a lock with one holder it is enough to name the owner. */
export interface LookMade extends Partial<Look> {
  readonly owner?: string;
  readonly count?: number;
}

export interface Besides {
  readonly faults?: Partial<Fault>[] | undefined;
  readonly looks?: LookMade[];
  readonly plan?: Partial<Plan>;
  readonly unnotedMs?: number;
  readonly healedAt?: number;
}

export function rulesBroken(notes: readonly Noted[], more: Besides = {}): string[] {
  return violationsIn(notes, more).map(({ rule }) => rule);
}

export function violationsIn(notes: readonly Noted[], more: Besides = {}): Violation[] {
  return check(evidenceOf(notes, more));
}

export function evidenceOf(notes: readonly Noted[], more: Besides = {}): Evidence {
  const history = new History(1);
  for (const [at, note] of notes) history.take({ at, ...note }, 'w0.0.');
  const fault = { nemesis: 'restart a server', from: 0, until: 0, detail: '' };
  const look = { server: 0, lock: LOCK, ttlMs: 500, from: 0, until: 0 };
  return {
    plan: { ...PLAN, ...more.plan },
    history,
    faults: (more.faults ?? []).map((each) => ({ ...fault, ...each })),
    looks: (more.looks ?? []).map(({ owner, count = 1, ...each }) => ({
      ...look,
      holders: owner === undefined ? [] : [{ owner, count }],
      ...each,
    })),
    healedAt: more.healedAt ?? 1e6,
    stoppedAt: more.healedAt ?? 1e6,
    ownLags: [],
    ...(more.unnotedMs !== undefined && { unnotedMs: more.unnotedMs }),
  };
}
