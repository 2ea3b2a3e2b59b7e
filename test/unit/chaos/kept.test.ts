// The rules about locks that clients keep between their holds: what they report, and what they must not.
import { expect, it } from 'vitest';
import type { Fault } from '../../chaos/faults.js';
import { planRound } from '../../chaos/plan-round.js';
import {
  CALL,
  LOCK,
  rulesBroken,
  violationsIn,
  type Noted,
} from '../../support/checked-history.js';

const PLAN = { kind: 'kept', keepMs: 100 } as const;
const OURS = 'w0.0.c0k0.';
const THEIRS = 'w1.0.c0k0.';

/** A hold of this owner, on a lock that may be kept. */
function hold(
  id: string,
  owner: string,
  from: number,
  until: number,
  calledAt = from - 1,
): Noted[] {
  const client = `${id.slice(0, 7)}.0`;
  return [
    [calledAt, { ...CALL, id, client, mayBeKept: true }],
    [from, { what: 'entered', id, owner, leftMs: 320 }],
    [until, { what: 'believes', id, leftMs: 100 }],
    [until + 1, { what: 'leaving', id }],
    [until + 2, { what: 'left', id }],
  ];
}

function rules(notes: readonly Noted[], more: Parameters<typeof rulesBroken>[1] = {}): string[] {
  const inOrder = [...notes].sort(([one], [other]) => one - other);
  return [...new Set(rulesBroken(inOrder, { plan: PLAN, ...more }))];
}

/** Those who hold the same grant one after the other, each from then on for 10 ms. */
function heldAt(...times: readonly number[]): Noted[] {
  return times.flatMap((at, index) => [
    ...(index > 0 ? [[at - 0.5, { what: 'kept', lock: LOCK, owner: 'ours:1' }] as const] : []),
    ...hold(`${OURS}${index}`, 'ours:1', at, at + 10),
  ]);
}

it('only locks of their kind are kept, for at most a ninth of the watchdog’s timeout', () => {
  expect(planRound('reentrant', 1).keepMs).toBeUndefined();
  for (let seed = 0; seed < 20; seed++) {
    const { keepMs, watchdogMs } = planRound('kept', seed);
    expect(keepMs).toBeGreaterThan(0);
    expect(keepMs).toBeLessThanOrEqual(watchdogMs / 9);
  }
});

it('when its key was lost, the holds that begin within the time for which a lock is kept are excused, and no later ones', () => {
  const deleted = { nemesis: 'delete a key', from: 200, until: 200, loses: [LOCK] };
  const faults = [{ ...deleted, clients: [], endsHolds: true }];
  const beside = (at: number): string[] =>
    rules([...heldAt(100, at), ...hold(`${THEIRS}0`, 'theirs:1', 210, 500)], { faults });
  expect(beside(220)).toEqual([]);
  expect(beside(295)).toEqual([]);
  expect(beside(340)).toEqual(['two holders']);
  const none = [...heldAt(100, 220), ...hold(`${THEIRS}0`, 'theirs:1', 210, 500)];
  expect(rules(none)).toEqual(['two holders']);
});

it('who called when the key had been lost long before is excused by that even less', () => {
  const faults = [{ from: 200, until: 200, loses: [LOCK], clients: [] }];
  const both = [
    ...hold(`${OURS}0`, 'ours:1', 400, 450),
    ...hold(`${THEIRS}0`, 'theirs:1', 420, 500),
  ];
  expect(rules(both, { faults })).toEqual(['two holders']);
});

it('who shows no owner may be on a kept grant, and is excused for as long', () => {
  const faults = [{ from: 200, until: 200, loses: [LOCK], clients: [] }];
  const id = `${OURS}0`;
  const beside = (at: number): string[] =>
    rules(
      [
        [at - 1, { ...CALL, id, mayBeKept: true }],
        [at, { what: 'entered', id }],
        [at + 20, { what: 'leaving', id }],
        [at + 21, { what: 'left', id }],
        ...hold(`${THEIRS}0`, 'theirs:1', 210, 500),
      ],
      { faults },
    );
  expect(beside(250)).toEqual([]);
  expect(beside(340)).toEqual(['two holders']);
});

it('a count of -1 is right for who may keep the lock, and wrong for others', () => {
  const looks = [{ from: 105, until: 106, owner: 'ours:1', count: -1, ttlMs: 300 }];
  expect(rules(heldAt(100), { looks })).toEqual([]);
  const others = heldAt(100).map(([at, note]): Noted => [
    at,
    note.what === 'call' ? { ...note, mayBeKept: false } : note,
  ]);
  expect(rules(others, { looks })).toEqual(['wrong count']);
});

it('a release of what has gone may succeed, for who may keep the lock', () => {
  const faults = [{ from: 105, until: 105, loses: [LOCK], isCertain: true, clients: [] }];
  expect(rules(heldAt(100), { faults })).toEqual([]);
  const others = heldAt(100).map(([at, note]): Noted => [
    at,
    note.what === 'call' ? { ...note, mayBeKept: false } : note,
  ]);
  expect(rules(others, { faults })).toEqual(['a loss that was not told']);
});

it('a mark with a lease of more than a third is reported, unless a clock was set back', () => {
  const looks = [{ from: 105, until: 106, owner: 'ours:1', count: -1, ttlMs: 400 }];
  expect(rules(heldAt(100), { looks })).toEqual(['kept for too long']);
  const faults = [{ from: 100, until: 103, aheadMs: -500, clients: [] }];
  expect(rules(heldAt(100), { looks, faults })).toEqual([]);
  const later = [{ from: 1_550, until: 1_551, owner: 'ours:1', count: -1, ttlMs: 400 }];
  expect(rules(heldAt(100, 1_560), { looks: later, faults })).not.toContain('kept for too long');
  const tooLate = [{ from: 1_650, until: 1_651, owner: 'ours:1', count: -1, ttlMs: 400 }];
  expect(rules(heldAt(100, 1_660), { looks: tooLate, faults })).toContain('kept for too long');
  const held = [{ from: 105, until: 106, owner: 'ours:1', count: 1, ttlMs: 900 }];
  expect(rules(heldAt(100), { looks: held })).toEqual([]);
  const nemesis = 'a replica takes over in order';
  const over = [{ nemesis, from: 103, until: 103, clients: [] }];
  expect(rules(heldAt(100), { looks, faults: over })).toEqual([]);
  const afterwards = [{ nemesis, from: 110, until: 110, clients: [] }];
  expect(rules(heldAt(100), { looks, faults: afterwards })).toEqual(['kept for too long']);
});

it('a hold that begins on a proof older than the lock is kept is reported', () => {
  // The lease is 333 ms, of which 330 count.
  const leaving = (leftMs: number, lags: Noted[] = [], more = {}): string[] =>
    rules(
      [
        ...heldAt(100, 120).map(([at, note]): Noted => [
          at,
          note.what === 'entered' && at === 120 ? { ...note, leftMs } : note,
        ]),
        ...lags,
      ],
      more,
    );
  expect(leaving(240)).toEqual([]);
  expect(leaving(180)).toEqual(['an old proof']);
  // Its process stood still as it began, or may have, for a time that nobody notes.
  expect(leaving(180, [[121, { what: 'lagged', ms: 60 }]])).toEqual([]);
  expect(leaving(180, [[119, { what: 'lagged', ms: 60 }]])).toEqual(['an old proof']);
  expect(leaving(180, [], { unnotedMs: 100 })).toEqual([]);
  expect(leaving(100, [], { unnotedMs: 100 })).toEqual(['an old proof']);
});

it('another client that waits and is passed over by the keeper’s own callers is reported', () => {
  const waits = (calledAt: number): Noted[] => [
    [50, { ...CALL, id: `${THEIRS}0`, client: 'w1.0.c0.0' }], // its process is not gone
    [51, { what: 'refused', id: `${THEIRS}0`, code: 'FALSE', message: '' }],
    ...hold(`${THEIRS}1`, 'theirs:1', 500, 510, calledAt),
  ];
  const past = (calledAt: number, more = {}): string[] =>
    violationsIn(
      [...heldAt(100, 200, 300), ...waits(calledAt)].sort(([one], [other]) => one - other),
      { plan: PLAN, ...more },
    ).map(({ rule, at }) => `${rule} at ${at}`);
  expect(past(110)).toEqual(['passed over at 300']);
  expect(past(90)).toEqual(['passed over at 300']); // the grant is no older
  expect(past(250)).toEqual([]);
  const faults = [{ nemesis: 'swallow commands', from: 105, until: 108, clients: [1] }];
  expect(past(110, { faults })).toEqual([]);
  // Of the same client: those stand in one line.
  const beside = [...heldAt(100, 200, 300), ...hold('w0.0.c0k1.0', 'ours:2', 500, 510, 110)];
  expect(rules(beside)).toEqual([]);
});

it('who waited when its process was killed is passed over by nobody', () => {
  const id = 'w0.0.c1k0.0';
  const killed: Noted = [110, { ...CALL, id, client: 'w0.0.c1.0' }];
  const waiting = [...heldAt(100, 200, 300), killed].sort(([one], [other]) => one - other);
  expect(rules(waiting)).toEqual(['passed over']);
});

it('a hold on a grant from before its client’s connection was lost is reported', () => {
  const after = (at: number, fault: Partial<Fault> = {}, ...others: Partial<Fault>[]): string[] =>
    rules(heldAt(100, at), {
      faults: [
        { nemesis: 'CLIENT KILL', from: 120, until: 120, servers: [0], ...fault },
        ...others,
      ],
    });
  expect(after(300)).toEqual(['kept over a connection']);
  expect(after(200)).toEqual([]); // it may not have heard of it
  expect(after(300, { from: 90, until: 90 })).toEqual([]);
  expect(after(300, { nemesis: 'cut connections', clients: [0] })).toEqual([
    'kept over a connection',
  ]);
  expect(after(300, { nemesis: 'cut connections', clients: [1] })).toEqual([]);
  const delayed = { nemesis: 'delay everything', from: 110, until: 150, clients: [0] };
  expect(after(300, {}, delayed)).toEqual([]);
  const stopped = { nemesis: 'stop a process', from: 110, until: 280, workers: [0] };
  expect(after(300, {}, stopped)).toEqual([]);
});
