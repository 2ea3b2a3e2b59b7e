// The checker of the fault campaign: what it reports, and what it must not.
import { expect, it } from 'vitest';
import {
  CALL,
  held,
  LOCK,
  rulesBroken,
  violationsIn,
  type Noted,
} from '../../support/checked-history.js';
import { planRound } from '../../chaos/plan-round.js';
import type { Note } from '../../chaos/worker/journal.js';

const A = 'w0.0.c0k0.0';
const B = 'w1.0.c0k0.0';

it('one holder after the other is accepted', () => {
  expect(rulesBroken([...held(A, 100, 200), ...held(B, 205, 300)])).toEqual([]);
});

it('two holders that believe at the same time are reported', () => {
  expect(rulesBroken([...held(A, 100, 200), ...held(B, 199, 300)])).toEqual(['two holders']);
});

it('a holder of a lock that still had to stay taken is reported, unless the lock was lost meanwhile', () => {
  const first = held(A, 100, 200, { atLeastMs: 1_000 });
  const next = (at: number): Noted[] => held(B, at, at + 50, { atLeastMs: 1_000 });
  expect(rulesBroken([...first, ...next(1_000)])).toEqual(['freed too early']);
  expect(rulesBroken([...first, ...next(1_100)])).toEqual([]);
  const faults = [{ nemesis: 'delete a key', from: 300, until: 310, loses: [LOCK] }];
  expect(rulesBroken([...first, ...next(1_000)], { faults })).toEqual([]);
});

it('a nested holder may believe as well; siblings may not at the same time', () => {
  const inner = held('w0.0.c0k0.1', 120, 150, { inside: A });
  expect(rulesBroken([...held(A, 100, 200), ...inner])).toEqual([]);
  const sibling = held('w0.0.c0k0.2', 140, 160, { inside: A });
  expect(rulesBroken([...held(A, 100, 200), ...inner, ...sibling])).toEqual(['two holders']);
});

it('a server that forgot excuses the holders from before, and no others', () => {
  const faults = [{ from: 150, until: 160, loses: 'all', endsHolds: true } as const];
  expect(rulesBroken([...held(A, 100, 300), ...held(B, 200, 300)], { faults })).toEqual([]);
  const later = [{ from: 250, until: 260, loses: 'all', endsHolds: true } as const];
  expect(rulesBroken([...held(A, 100, 300), ...held(B, 200, 300)], { faults: later })).toEqual([
    'two holders',
  ]);
  const before = [{ from: -2_000, until: -1_900, loses: 'all', endsHolds: true } as const];
  expect(rulesBroken([...held(A, 100, 300), ...held(B, 200, 300)], { faults: before })).toEqual([
    'two holders',
  ]);
});

it('an owner that was named in a release may believe while the key is still that of its predecessor, until the release is answered', () => {
  const next = held('w0.0.c0k0.1', 201.2, 300).map(([at, note]): Noted => [
    at,
    note.what === 'entered' ? { ...note, owner: `${A}:2` } : note,
  ]);
  const both = [...held(A, 100, 200), ...next];
  const lookedAt = (from: number): string[] =>
    rulesBroken(both, { looks: [{ from, until: from + 0.2, owner: `${A}:1` }] });
  expect(lookedAt(201.4)).toEqual([]);
  expect(lookedAt(210)).toContain('not on the server');
  const warned = (lock: string): Noted => [
    201.5,
    { what: 'warned', message: `lock "${lock}" not known to be released: no answer` },
  ];
  const late = [{ from: 210, until: 210.2, owner: `${A}:1` }];
  const inOrder = (lock: string): Noted[] => [...both, warned(lock)].sort(([a], [b]) => a - b);
  expect(rulesBroken(inOrder(LOCK), { looks: late })).toEqual([]);
  expect(rulesBroken(inOrder('another'), { looks: late })).toContain('not on the server');
});

it('a holder that believes while the server names another one is reported; a single query may be outdated', () => {
  const looks = [{ from: 110, until: 112, owner: `${B}:1` }];
  expect(rulesBroken(held(A, 100, 200), { looks })).toEqual(['not on the server']);
  expect(rulesBroken(held(A, 100, 200), { looks: [{ ...looks[0], from: 99 }] })).toEqual([]);
  expect(
    rulesBroken(held(A, 100, 200), { looks: [{ from: 110, until: 112, owner: `${A}:1` }] }),
  ).toEqual([]);
});

it('of two servers that claim to be master, the one that let a holder in is trusted', () => {
  const looks = [
    { from: 105, until: 106, owner: `${A}:1`, server: 1 },
    { from: 110, until: 112, server: 0 },
  ];
  expect(rulesBroken(held(A, 100, 200), { looks })).toEqual([]);
  const gone = [...looks, { from: 120, until: 122, server: 1 }];
  expect(rulesBroken(held(A, 100, 200), { looks: gone })).toEqual(['not on the server']);
});

it('of two servers that claim to be master, either may have let in a holder that no query saw', () => {
  const stale = [90, 110, 210].map((from) => ({ from, until: from + 2, server: 0 }));
  const master = [95, 205].map((from) => ({ from, until: from + 2, server: 1 }));
  const inOrder = (looks: typeof stale): typeof stale =>
    looks.sort((one, other) => one.from - other.from);
  const both = inOrder([...stale, ...master]);
  const plan = { topology: 'sentinel' } as const;
  expect(rulesBroken(held(A, 100, 200), { looks: both, plan })).toEqual([]);
  expect(rulesBroken(held(A, 100, 200), { looks: both })).toEqual(['not on the server']);
  const gone = inOrder([...both, { from: 120, until: 122, server: 1 }]);
  expect(rulesBroken(held(A, 100, 200), { looks: gone, plan })).toEqual(['not on the server']);
  expect(rulesBroken(held(A, 100, 200), { looks: stale, plan })).toEqual(['not on the server']);
});

it('of two servers that claim to be master, one that let a holder in without hearing of it is not trusted', () => {
  const [, ...entersAndLeaves] = held(A, 100, 200);
  const notes: Noted[] = [[-3_000, { ...CALL, id: A }], ...entersAndLeaves];
  const looks = [
    { from: -2_500, until: -2_499, owner: `${A}:1`, server: 0 },
    { from: -1_500, until: -1_499, server: 0 }, // it has lapsed there, and waits at the other one
    { from: 95, until: 96, owner: `${A}:1`, server: 1 },
    { from: 110, until: 112, server: 0 },
  ];
  const plan = { kind: 'read-write', topology: 'sentinel' } as const;
  expect(rulesBroken(notes, { looks, plan })).toEqual([]);
  const gone = [...looks, { from: 120, until: 122, server: 1 }];
  const [violation] = violationsIn(notes, { looks: gone, plan });
  expect(violation).toMatchObject({ rule: 'not on the server', at: 120 });
  expect(violation?.message).toContain("the key on server 1 was nobody's");
});

/** Held from 100 to 200, and from 106 a second time within that. */
function withNested(until: number): Noted[] {
  const inside: Noted[] = [
    [105, { ...CALL, id: B, inside: A }],
    [106, { what: 'entered', id: B }],
    [until, { what: 'leaving', id: B }],
    [until + 1, { what: 'left', id: B }],
  ];
  return [...held(A, 100, 200), ...inside].sort(([one], [other]) => one - other);
}

it('a hold count that differs from the holds is reported', () => {
  const looks = [{ from: 110, until: 112, owner: `${A}:1`, count: 2 }];
  expect(rulesBroken(held(A, 100, 200), { looks })).toEqual(['wrong count']);
  const former = { from: 114, until: 116, owner: `${A}:1`, server: 1 };
  const two = { looks: [...looks, former] };
  expect(rulesBroken(held(A, 100, 200), two)).toEqual(['wrong count']);
  const plan = { topology: 'sentinel' } as const;
  expect(rulesBroken(held(A, 100, 200), { ...two, plan })).toEqual([]); // which knows better
  const nested = withNested(120);
  const faults = [
    { nemesis: 'lose, double and delay commands', from: 90, until: 130, clients: [0] },
  ];
  const late = (count: number): object => ({
    looks: [{ from: 130, until: 132, owner: `${A}:1`, count }],
  });
  expect(rulesBroken(nested, late(2))).toEqual(['wrong count']);
  expect(rulesBroken(nested, { ...late(2), faults })).toEqual([]); // a copy of what was right once
  expect(rulesBroken(nested, { ...late(3), faults })).toEqual(['wrong count']);
});

it('a replica that takes over may have missed that a hand-over was confirmed, and that a hold began within it', () => {
  const nested = withNested(150);
  const looks = [{ from: 130, until: 132, owner: `${A}:1`, count: 0 }];
  const takenOverAt = (at: number): object => ({
    looks,
    faults: [{ nemesis: 'a replica takes over in order', from: at, until: at }],
  });
  expect(rulesBroken(nested, takenOverAt(120))).toEqual([]);
  expect(rulesBroken(nested, takenOverAt(140))).toEqual(['wrong count']);
  const copies = { nemesis: 'lose, double and delay commands', from: 90, until: 130, clients: [0] };
  expect(rulesBroken(nested, { looks, faults: [copies] })).toEqual(['wrong count']);
});

it('a hold count of a MultiLock that has lost another of its locks is accepted', () => {
  const looks = [{ from: 110, until: 112, owner: `${A}:1`, count: 2 }];
  const lost: Noted = [105, { what: 'lost', lock: 'other', owner: `${A}:1`, reason: 'forced' }];
  const rules = (locks: string[]): string[] => {
    const [[at, call], ...rest] = held(A, 100, 200) as [Noted, ...Noted[]];
    return rulesBroken([[at, { ...call, locks } as Noted[1]], ...rest, lost], { looks });
  };
  expect(rules([LOCK])).toContain('wrong count');
  expect(rules([LOCK, 'other'])).not.toContain('wrong count');
});

it('a hold count that is too high after a release without an answer, which was reported, is accepted', () => {
  const looks = [{ from: 110, until: 112, owner: `${A}:1`, count: 2 }];
  const message = `w0.0.c0.0: lock "${LOCK}" not known to be released: Redis did not answer`;
  expect(
    rulesBroken([...held(A, 100, 200), [105, { what: 'warned', message }]], { looks }),
  ).toEqual([]);
});

it('a lock without expiry is reported', () => {
  const looks = [{ from: 110, until: 112, owner: `${A}:1`, ttlMs: -1 }];
  expect(rulesBroken(held(A, 100, 200), { looks })).toEqual(['no expiry']);
});

it('an unexplained loss is reported; an explained one is not', () => {
  const alarmed: Noted[] = [
    ...held(A, 100, 200).slice(0, 3),
    [210, { what: 'lost', lock: LOCK, owner: `${A}:1`, reason: 'deleted' }],
    [211, { what: 'doubts', id: A, contradicts: false }],
    [212, { what: 'leaving', id: A }],
    [213, { what: 'left', id: A, code: 'LOCK_LOST', message: '', reason: 'deleted' }],
  ];
  expect(rulesBroken(alarmed)).toEqual(['a false alarm']);
  const faults = [{ from: 150, until: 160, loses: 'all', endsHolds: true } as const];
  expect(rulesBroken(alarmed, { faults })).toEqual([]);
});

it('the loss of a successor is explained by what its predecessor, whose release named it, had lost before', () => {
  const forced: Noted[] = [
    [150, { what: 'forcing', id: 'f', locks: [LOCK] }],
    [151, { what: 'forced', id: 'f', locks: [LOCK], isKnown: true }],
  ];
  const next = 'w0.0.c0k0.1';
  const lost = (id: string, at: number): Noted => [
    at,
    { what: 'left', id, code: 'LOCK_LOST', message: '', reason: 'forced' },
  ];
  const told = (endedAt: number): string[] => {
    const former = held(A, 140, 1_400).slice(0, -1);
    const [called, , , leaving] = held(next, 1_402, 1_402);
    const entered: Noted = [1_402, { what: 'entered', id: next, owner: `${A}:2`, leftMs: 900 }];
    const notes = [...former, ...forced, called!, entered, leaving!];
    return rulesBroken([...notes, lost(A, endedAt), lost(next, 1_405)]);
  };
  expect(told(1_405)).not.toContain('a false alarm');
  expect(told(1_401.5)).toContain('a false alarm'); // its release was answered before the other one entered
});

it('a forceUnlock() that succeeded without a master out of reach explains a later loss of a Redlock', () => {
  const notes: Noted[] = [
    [150, { what: 'forcing', id: 'f', locks: [LOCK] }],
    [151, { what: 'forced', id: 'f', locks: [LOCK], isKnown: true }],
    ...held(A, 1_000, 1_100).slice(0, -1),
    [1_105, { what: 'left', id: A, code: 'LOCK_LOST', message: '', reason: 'forced' }],
  ];
  const masters = { kind: 'red', topology: 'masters', nodeTimeoutMs: 200 } as const;
  const faults = [{ nemesis: 'swallow commands', from: 100, until: 900 }];
  expect(rulesBroken(notes, { faults, plan: masters })).not.toContain('a false alarm');
  expect(rulesBroken(notes, { plan: masters })).toContain('a false alarm');
  expect(rulesBroken(notes, { faults })).toContain('a false alarm'); // one server has answered
});

it('a call that takes longer than it may is reported, unless its process was suspended', () => {
  const refused: Noted[] = [
    [0, { ...CALL, id: A, waitMs: 100 }],
    [4_000, { what: 'refused', id: A, code: 'LOCK_TIMEOUT', message: '' }],
  ];
  expect(rulesBroken(refused)).toEqual(['a late call']);
  const faults = [{ nemesis: 'stop a process', from: 50, until: 3_900, workers: [0] }];
  expect(rulesBroken(refused, { faults })).toEqual([]);
});

it('in a fair line, a caller that overtakes a known waiter is reported', () => {
  const late = held(A, 500, 600, { isFair: true });
  const early = held(B, 300, 400, { isFair: true });
  const waits: Noted = [290, { what: 'waiting', lock: LOCK, owner: `${A}:1` }];
  const called: Noted = [200, { ...CALL, id: A, isFair: true }];
  const order = [called, waits, ...early, ...late.slice(1)];
  expect(rulesBroken(order)).toEqual(['an overtaking']);
  const faults = [{ nemesis: 'cut connections', from: 295, until: 296, clients: [0] }];
  expect(rulesBroken(order, { faults })).toEqual([]);
  const failed = (client: string): Noted => {
    const message = `${client}: the subscriber connection to Redis (h:1) failed: no answer within 243 ms`;
    return [285, { what: 'warned', message }];
  };
  expect(rulesBroken([...order, failed(CALL.client)])).toEqual([]);
  expect(rulesBroken([...order, failed('another')])).toEqual(['an overtaking']);
  const forced = (lock: string): Noted[] => [
    [286, { what: 'forcing', id: 'f', locks: [lock] }],
    [287, { what: 'forced', id: 'f', locks: [lock], isKnown: true }],
  ];
  expect(rulesBroken([...order, ...forced('another')])).toEqual(['an overtaking']);
});

it("a waiter may be overtaken while its connection is down, but not another client's", () => {
  const late = held(A, 900, 1_000, { isFair: true });
  const early = held(B, 700, 800, { isFair: true });
  const waits: Noted = [290, { what: 'waiting', lock: LOCK, owner: `${A}:1` }];
  const called: Noted = [200, { ...CALL, id: A, isFair: true }];
  const failedOf = (client: string): Noted => {
    const message = `${client}: the subscriber connection to Redis (h:1) failed: no answer`;
    return [600, { what: 'warned', message }];
  };
  const brokenWith = (failed: Noted): string[] =>
    rulesBroken([called, waits, ...early, ...late.slice(1), failed]);
  expect(brokenWith(failedOf(CALL.client))).toEqual([]);
  expect(brokenWith(failedOf('another'))).toEqual(['an overtaking']);
});

it('an event that should never come up is reported', () => {
  const odd: Noted = [10, { what: 'refused', id: A, code: 'TypeError', message: 'x is undefined' }];
  expect(rulesBroken([[0, { ...CALL, id: A }], odd])).toEqual(['an odd error']);
  expect(rulesBroken([[0, { what: 'trouble', message: 'unhandled' }]])).toEqual([
    'trouble in a process',
  ]);
});

it('the same seed makes the same plan, another seed another one', () => {
  expect(planRound('fair', 7)).toEqual(planRound('fair', 7));
  expect(planRound('fair', 7)).not.toEqual(planRound('fair', 8));
});

it('a waiter that is not woken is reported; not while a MultiLock has the lock', () => {
  const calm = 1e6 + 4_000;
  /** Of three sections the third waits from the beginning, and enters after 300 ms. */
  const turns = (between: readonly string[]): Noted[] =>
    [0, 1, 2].flatMap((turn) => {
      const from = calm + turn * 1_000;
      const [first, second, third] = [
        `w0.0.c0k0.${turn}`,
        `w1.0.c0k0.${turn}`,
        `w2.0.c0k0.${turn}`,
      ];
      const [called, ...rest] = held(third, from + 500, from + 600);
      return [
        ...held(first, from, from + 200),
        [from, called![1]] as const,
        ...held(second, from + 210, from + 490, { locks: between }),
        ...rest,
      ];
    });
  expect(rulesBroken(turns(['y']))).toEqual(['nobody is woken']);
  expect(rulesBroken(turns([LOCK, 'y']))).toEqual([]);
  // Taken for a moment by a MultiLock that did not get the rest; and by nobody before the third enters.
  const looks = (afterMs: number): { from: number; until: number; owner: string }[] =>
    [0, 1, 2].map((turn) => {
      const from = calm + turn * 1_000 + 200 + afterMs;
      return { from, until: from + 2, owner: 'w3.0.c0.0:9' };
    });
  expect(rulesBroken(turns(['y']), { looks: looks(100) })).toEqual([]);
  expect(rulesBroken(turns(['y']), { looks: looks(290) })).toEqual(['nobody is woken']);
  // A replica that took over by itself, in the calm, disturbs what comes soon after.
  const takenOver = (at: number): Parameters<typeof rulesBroken>[1] => ({
    faults: [{ nemesis: 'a replica takes over by itself', from: at, until: at, servers: [1] }],
  });
  expect(rulesBroken(turns(['y']), takenOver(calm - 500))).toEqual([]);
  expect(rulesBroken(turns(['y']), takenOver(calm + 9_000))).toEqual(['nobody is woken']);
  const busy: Noted = [calm + 400, { what: 'lagged', ms: 60 }];
  const all = turns(['y']);
  expect(rulesBroken([...all, busy])).toEqual([]); // of three slow ones only two are left
});

it('two callers that meet at a name of their own, of which the second is not woken, are reported; not if the first took as long', () => {
  /** The first one enters after this time, the second one 200 ms after the first has left. */
  const meetings = (tookMs: number): Noted[] =>
    [0, 1, 2].flatMap((turn) => {
      const from = 1e6 + 4_000 + turn * 1_000;
      const [first, second] = [`w0.0.c0k0.${turn}`, `w0.0.c1p0.${turn}`];
      const locks = [`meeting of ${first}`];
      const [, ...rest] = held(first, from + tookMs, from + 300, { locks });
      const [, ...next] = held(second, from + 502, from + 510, { locks });
      const called = (id: string): Note => ({ ...CALL, id, how: 'meet', locks });
      return [
        [from, called(first)] as const,
        ...rest,
        [from + 290, called(second)] as const,
        ...next,
      ];
    });
  expect(rulesBroken(meetings(5))).toEqual(['nobody is woken']);
  // Before the first fault they count as well, unless other processes were still starting.
  const begun = (at: number): Parameters<typeof rulesBroken>[1] => ({
    faults: [{ from: 1e6 + 20_000, until: 1e6 + 20_000 }],
    looks: [{ from: at, until: at }],
    healedAt: 1e6 + 30_000,
  });
  expect(rulesBroken(meetings(5), begun(1e6))).toEqual(['nobody is woken']);
  expect(rulesBroken(meetings(5), begun(1e6 + 10_000))).toEqual([]);
  expect(rulesBroken(meetings(40))).toEqual([]);
});

it('a holder that took the lock over within its process relies on what the server granted to the first', () => {
  const first = held(A, 100, 200);
  const [called, , ...rest] = held('w0.0.c0k1.0', 210, 400);
  // The one before it had extended the lease.
  const entered: Noted = [
    210,
    { what: 'entered', id: 'w0.0.c0k1.0', owner: `${A}:1`, leftMs: 5_000 },
  ];
  const other = held(B, 300, 350);
  const faults = [{ from: 150, until: 160, loses: 'all', endsHolds: true } as const];
  expect(rulesBroken([...first, called!, entered, ...rest, ...other], { faults })).toEqual([]);
  expect(rulesBroken([...first, called!, entered, ...rest, ...other])).toEqual(['two holders']);
});
