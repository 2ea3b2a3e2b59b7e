// Locks that are deleted, flushed, evicted or forced out under their holders: for how long the former holder may go on beside the next one.
import { expect, it } from 'vitest';
import { deletionsIn } from '../../chaos/checker/deletions.js';
import type { Plan } from '../../chaos/plan.js';
import {
  evidenceOf,
  held,
  LOCK,
  rulesBroken,
  type Besides,
  type Noted,
} from '../../support/checked-history.js';

const A = 'w0.0.c0k0.0';
const B = 'w1.0.c0k0.0';
/** The leases are longer than the rounds of renewal take to find a loss. */
const PLAN = { watchdogMs: 9_000, commandTimeoutMs: 9_000 } as const;
const DELETED = {
  nemesis: 'take a lock away',
  clients: [],
  from: 2_000,
  until: 2_000,
  loses: [LOCK],
  endsHolds: true,
  isDeletion: true,
} as const;
const RULE = 'two holders for too long';
const TOO_LATE = 'a loss that was not told';

/** Holds until then, when it is told that it has lost the lock. */
function loses(id: string, from: number, until: number, more = {}): Noted[] {
  return [
    ...held(id, from, until, more).slice(0, 4),
    [until + 2, { what: 'left', id, code: 'LOCK_LOST', message: '', reason: 'deleted' }],
  ];
}

function inOrder(...notes: Noted[][]): Noted[] {
  return notes.flat().sort(([one], [other]) => one - other);
}

/** What is wrong when the first one goes on until then, beside another one that came at 2,010. */
function broken(until: number, besides: Besides = {}, first = {}, next = {}): string[] {
  const notes = inOrder(loses(A, 100, until, first), held(B, 2_010, 9_000, next));
  return rulesBroken(notes, {
    faults: [DELETED],
    ...besides,
    plan: { ...PLAN, ...besides.plan },
  }).filter((rule) => rule !== 'a false alarm');
}

it('a holder that goes on beside the next one for a second after its lock was deleted is accepted, and for no longer', () => {
  expect(broken(3_080)).toEqual([]);
  expect(broken(3_100)).toEqual([RULE]);
});

it('a holder that goes on after its lock was forced out is reported, too, also if nobody came', () => {
  const forced: Noted[] = [
    [2_000, { what: 'forcing', id: 'f', locks: [LOCK] }],
    [2_001, { what: 'forced', id: 'f', locks: [LOCK], isKnown: true }],
  ];
  const alone = (until: number): string[] =>
    rulesBroken(inOrder(loses(A, 100, until), forced), { plan: PLAN });
  expect(alone(3_090)).toEqual([]);
  expect(alone(3_110)).toEqual([TOO_LATE]);
  const beside = inOrder(loses(A, 100, 3_110), forced, held(B, 2_010, 9_000));
  expect(rulesBroken(beside, { plan: PLAN }).sort()).toEqual([TOO_LATE, RULE]);
});

it('a holder whose lock something else took away may go on for its lease', () => {
  const { isDeletion, ...takeover } = { ...DELETED, nemesis: 'a replica takes over' };
  expect(isDeletion).toBe(true);
  expect(broken(3_100, { faults: [takeover] })).toEqual([]);
  expect(broken(3_100, { faults: [DELETED, takeover] })).toEqual([]);
});

it('a deletion excuses nobody who came after it', () => {
  const notes = inOrder(held(A, 2_100, 2_300), held(B, 2_200, 2_300));
  const faults = [{ ...DELETED, from: -8_000, until: -8_000 }];
  expect(rulesBroken(notes, { faults, plan: PLAN })).toEqual(['two holders']);
});

it('who reads may go on for two seconds beside who writes; who writes may not', () => {
  const plan: Partial<Plan> = { kind: 'read-write' };
  const reads = (until: number): string[] =>
    broken(until, { plan }, { half: 'read' }, { half: 'write' });
  const writes = (until: number): string[] =>
    broken(until, { plan }, { half: 'write' }, { half: 'write' });
  expect(reads(4_030)).toEqual([]);
  expect(reads(4_050)).toEqual([RULE]);
  expect(writes(3_100)).toEqual([RULE]);
});

it('permits that were taken away are no room for others for longer than two seconds', () => {
  const plan: Partial<Plan> = { kind: 'semaphore', permits: { declared: 1, isChanged: false } };
  const ofOne = (until: number): string[] =>
    broken(until, { plan }, { permits: 1 }, { permits: 1 });
  expect(ofOne(4_030)).toEqual([]);
  expect(ofOne(4_050)).toEqual([RULE]);
  const two: Partial<Plan> = { ...plan, permits: { declared: 2, isChanged: false } };
  expect(broken(4_050, { plan: two }, { permits: 1 }, { permits: 1 })).toEqual([]);
});

it('the time in which the process of the former holder stood still is not counted', () => {
  const stopped = { nemesis: 'stop a process', workers: [0], from: 2_500, until: 3_000 };
  expect(broken(3_580, { faults: [DELETED, stopped] })).toEqual([]);
  expect(broken(3_600, { faults: [DELETED, stopped] })).toEqual([RULE]);
  const ofNext = { ...stopped, workers: [1] };
  expect(broken(3_580, { faults: [DELETED, ofNext] })).toEqual([RULE]);
});

it('a former holder whose connections may have been down is excused', () => {
  const cut = { nemesis: 'cut connections', clients: [0], from: 2_500, until: 2_500 };
  const isExcused = (fault: Besides['faults']): boolean =>
    broken(5_000, { faults: [DELETED, ...fault!] }).length === 0;
  expect(isExcused([cut])).toBe(true);
  expect(isExcused([{ ...cut, from: 1_005, until: 1_015 }])).toBe(true); // it may still be opening them
  expect(isExcused([{ ...cut, from: 1_000, until: 1_000 }])).toBe(false);
  expect(isExcused([{ ...cut, clients: [1] }])).toBe(false); // that of the next holder
  expect(isExcused([{ nemesis: 'stop a server', servers: [0], from: 2_500, until: 2_600 }])).toBe(
    true,
  );
  expect(isExcused([{ nemesis: 'SCRIPT FLUSH', servers: [0], from: 2_500, until: 2_500 }])).toBe(
    false,
  );
});

it('deletions are counted that hit somebody, and those among them that connections excuse', () => {
  const count = (until: number, faults: Besides['faults']): [number, number] => {
    const notes = inOrder(loses(A, 100, until), held(B, 2_010, 9_000));
    const { hitCount, excusedCount } = deletionsIn(evidenceOf(notes, { faults, plan: PLAN }));
    return [hitCount, excusedCount];
  };
  const cut = { nemesis: 'cut connections', clients: [0], from: 2_500, until: 2_500 };
  const before = { ...DELETED, from: 50, until: 50 };
  expect(count(3_000, [DELETED, before])).toEqual([1, 0]);
  expect(count(3_000, [DELETED, cut])).toEqual([1, 0]); // it was told nevertheless
  expect(count(5_000, [DELETED, cut])).toEqual([1, 1]);
  expect(count(5_000, [DELETED])).toEqual([1, 0]); // a violation
});
