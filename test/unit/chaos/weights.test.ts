// The rules of the fault campaign for locks with several holders: what they report, and what they must not.
import { describe, expect, it } from 'vitest';
import { booksOf, liveHolders, type Books, type Ledger } from '../../chaos/checker/looks.js';
import { planRound } from '../../chaos/plan-round.js';
import {
  CALL,
  held,
  LOCK,
  rulesBroken,
  type LookMade,
  type Noted,
} from '../../support/checked-history.js';

const A = 'w0.0.c0k0.0';
const B = 'w1.0.c0k0.0';
const C = 'w2.0.c0k0.0';
const ALL = 2 ** 31;
const SEMAPHORE = { kind: 'semaphore', permits: { declared: 2, isChanged: false } } as const;
const CHANGED = { kind: 'semaphore', permits: { declared: 2, isChanged: true } } as const;
const READ_WRITE = { kind: 'read-write' } as const;
const FORGOT = { loses: 'all', endsHolds: true } as const;

/** In the order of their times. */
function inOrder(...notes: readonly (readonly Noted[])[]): Noted[] {
  return notes.flat().sort(([one], [other]) => one - other);
}

/** A setPermits() with this number. */
function set(permits: number, from: number, until: number, isKnown = true): Noted[] {
  const id = `s${from}`;
  return [
    [from, { what: 'setting', id, lock: LOCK, permits }],
    [until, { what: 'set', id, isKnown }],
  ];
}

/** A query that names these holders, and how many permits each has. */
function look(at: number, ...holders: readonly (readonly [id: string, count: number])[]): LookMade {
  return {
    from: at,
    until: at + 2,
    holders: holders.map(([id, count]) => ({ owner: `${id}:1`, count })),
  };
}

describe('a semaphore', () => {
  const permits = (id: string, from: number, until: number, count = 1): Noted[] =>
    held(id, from, until, { permits: count, isFair: true });

  it('may have as many holders as permits, and no more', () => {
    const two = inOrder(permits(A, 100, 200), permits(B, 110, 210));
    expect(rulesBroken(two, { plan: SEMAPHORE })).toEqual([]);
    const three = inOrder(two, permits(C, 120, 220));
    expect(rulesBroken(three, { plan: SEMAPHORE })).toEqual(['too many holders']);
    const after = inOrder(two, permits(C, 201, 220));
    expect(rulesBroken(after, { plan: SEMAPHORE })).toEqual([]);
    const large = inOrder(permits(A, 100, 200), permits(B, 110, 210, 2));
    expect(rulesBroken(large, { plan: SEMAPHORE })).toEqual(['too many holders']);
  });

  it('that forgot is excused for the holders from before, and for no others', () => {
    const three = inOrder(permits(A, 100, 300), permits(B, 110, 300), permits(C, 250, 280));
    const faults = [{ ...FORGOT, from: 150, until: 160 }];
    expect(rulesBroken(three, { plan: SEMAPHORE, faults })).toEqual([]);
    const later = [{ ...FORGOT, from: 290, until: 295 }];
    expect(rulesBroken(three, { plan: SEMAPHORE, faults: later })).toEqual(['too many holders']);
    const anew = inOrder(
      permits(A, 1_300, 1_400),
      permits(B, 1_310, 1_400),
      permits(C, 1_320, 1_400),
    );
    expect(rulesBroken(anew, { plan: SEMAPHORE, faults })).toEqual(['too many holders']);
  });

  it('with fewer permits than before revokes none, and lets in nobody that does not fit', () => {
    const lowered = inOrder(permits(A, 100, 300), permits(B, 110, 300), set(1, 150, 160));
    expect(rulesBroken(lowered, { plan: CHANGED })).toEqual([]);
    const after = inOrder(permits(A, 200, 300), permits(B, 210, 300), set(1, 150, 160));
    expect(rulesBroken(after, { plan: CHANGED })).toEqual(['too many holders']);
    const unknown = inOrder(permits(A, 200, 300), permits(B, 210, 300), set(1, 150, 160, false));
    expect(rulesBroken(unknown, { plan: CHANGED })).toEqual([]); // perhaps there are two
  });

  it('with more permits than declared lets in more, until the greater number was forgotten or lowered', () => {
    const three = (from: number): Noted[] =>
      inOrder(
        permits(A, from, from + 100),
        permits(B, from + 10, from + 100),
        permits(C, from + 20, from + 100),
      );
    expect(rulesBroken(inOrder(three(200), set(3, 150, 160)), { plan: CHANGED })).toEqual([]);
    const early = inOrder(three(200), set(3, 250, 260));
    expect(rulesBroken(early, { plan: CHANGED })).toEqual(['too many holders']);
    const lowered = inOrder(three(200), set(3, 150, 160), set(2, 170, 180));
    expect(rulesBroken(lowered, { plan: CHANGED })).toEqual(['too many holders']);
    const copies = [
      { nemesis: 'lose, double and delay commands', from: 140, until: 300, clients: [0] },
    ];
    // The command that set three may have come once more.
    expect(rulesBroken(lowered, { plan: CHANGED, faults: copies })).toEqual([]);
  });

  it('refuses a caller that wants more than there is, and no other', () => {
    const refused = (count: number): Noted[] => [
      [200, { ...CALL, id: A, permits: count }],
      [210, { what: 'refused', id: A, code: 'INVALID_OPTION', message: '' }],
    ];
    const lowered = set(1, 100, 110);
    expect(rulesBroken(inOrder(lowered, refused(2)), { plan: CHANGED })).toEqual([]);
    expect(rulesBroken(inOrder(lowered, refused(1)), { plan: CHANGED })).toEqual(['an odd error']);
    expect(rulesBroken(refused(2), { plan: SEMAPHORE })).toEqual(['an odd error']);
    // The set number was deleted: until nobody uses the semaphore, its number is not the declared one.
    const faults = [{ from: 150, until: 151, disorders: [LOCK], clients: [] }];
    expect(rulesBroken(inOrder(lowered, refused(1)), { plan: CHANGED, faults })).toEqual([]);
  });

  it('has, when all have stopped, as many permits as were declared', () => {
    const said = (count: number): Noted[] => [
      [100, { what: 'available', client: 'w0.0.c0.0', lock: LOCK, permits: count }],
    ];
    expect(rulesBroken(said(2), { plan: SEMAPHORE })).toEqual([]);
    expect(rulesBroken(said(1), { plan: SEMAPHORE })).toEqual(['leaked permits']);
  });

  it('gives a holder what it asked for, and names all holders', () => {
    const both = inOrder(permits(A, 100, 200), permits(B, 100, 200));
    const looks = (...all: LookMade[]): object => ({ plan: SEMAPHORE, looks: all });
    expect(rulesBroken(both, looks(look(110, [A, 1], [B, 1])))).toEqual([]);
    expect(rulesBroken(both, looks(look(110, [A, 1], [B, 2])))).toEqual(['wrong weight']);
    expect(rulesBroken(both, looks(look(110, [A, 1])))).toEqual(['not on the server']);
  });

  it('with contradictory contents is reported', () => {
    const books = (used: number, mistake?: string): Books => {
      return { capacity: 2, used, mistake, first: undefined };
    };
    const seen = (made: Books): LookMade[] => [{ from: 100, until: 102, books: made }];
    expect(rulesBroken([], { plan: SEMAPHORE, looks: seen(books(2)) })).toEqual([]);
    expect(rulesBroken([], { plan: SEMAPHORE, looks: seen(books(3)) })).toEqual(['broken books']);
    expect(rulesBroken([], { plan: CHANGED, looks: seen(books(3)) })).toEqual([]); // there were more
    expect(rulesBroken([], { plan: CHANGED, looks: seen(books(1, 'odd')) })).toEqual([
      'broken books',
    ]);
  });

  it('is read from its keys: a lapsed owner holds nothing, and the rest of one key counts for nothing', () => {
    const fields = { capacity: '5', used: '4', a: '1', b: '3?' };
    const time = ['100', '500'] as const;
    const places = { c: 'w2 7 100900 1000 0 1 x' };
    const ledger = (leases: readonly string[]): Ledger => [fields, time, leases, ['c'], places];
    const both = ledger(['a', '100000', 'b', '100001']);
    expect(liveHolders(both)).toEqual([{ owner: 'b', count: 3 }]);
    const first = { owner: 'c', count: 2 };
    expect(booksOf(both)).toEqual({ capacity: 5, used: 4, mistake: undefined, first });
    expect(booksOf(ledger([]))).toBeUndefined();
    expect(booksOf(ledger(['a', '100000']))?.mistake).toContain('b held permits without a lease');
    expect(booksOf(ledger(['a', '1', 'b', '1', 'd', '1']))?.mistake).toContain('d had a lease');
    const more: Ledger = [{ ...fields, used: '5' }, time, ['a', '1', 'b', '1'], [], {}];
    expect(booksOf(more)?.mistake).toContain('5 permits were in use');
  });
});

describe('a read-write lock', () => {
  const reads = (id: string, from: number, until: number, inside?: string): Noted[] =>
    held(id, from, until, { half: 'read', isFair: true, ...(inside ? { inside } : {}) });
  const writes = (id: string, from: number, until: number, inside?: string): Noted[] =>
    held(id, from, until, { half: 'write', isFair: true, ...(inside ? { inside } : {}) });
  const broken = (notes: readonly Noted[], looks: LookMade[] = []): string[] =>
    rulesBroken(notes, { plan: READ_WRITE, looks });

  it('may have many readers, or one writer', () => {
    expect(broken(inOrder(reads(A, 100, 200), reads(B, 110, 210)))).toEqual([]);
    expect(broken(inOrder(reads(A, 100, 200), writes(B, 110, 210)))).toEqual(['two holders']);
    expect(broken(inOrder(writes(A, 100, 200), writes(B, 110, 210)))).toEqual(['two holders']);
    expect(broken(inOrder(writes(A, 100, 200), writes(B, 205, 210)))).toEqual([]);
  });

  it('lets a writer read, and continue to read after it has written', () => {
    const inner = 'w0.0.c0k0.1';
    const downgrade = inOrder(
      writes(A, 100, 200),
      // One owner for both.
      reads(inner, 150, 400, A).map(([at, note]) =>
        note.what === 'entered' ? [at, { ...note, owner: `${A}:1` }] : [at, note],
      ),
    );
    expect(broken(inOrder(downgrade, reads(B, 250, 300)))).toEqual([]);
    expect(broken(inOrder(downgrade, reads(B, 150, 300)))).toEqual(['two holders']);
    expect(broken(inOrder(downgrade, writes(B, 250, 300)))).toEqual(['two holders']);
    expect(broken(downgrade, [look(110, [A, ALL]), look(300, [A, 1])])).toEqual([]);
    expect(broken(downgrade, [look(300, [A, ALL])])).toEqual(['wrong weight']);
    expect(broken(downgrade, [look(110, [A, 1])])).toEqual(['wrong weight']);
    const faults = [{ ...FORGOT, from: 220, until: 230 }];
    const another = inOrder(downgrade, writes(B, 250, 300));
    expect(rulesBroken(another, { plan: READ_WRITE, faults })).toEqual([]);
  });

  it('never lets a reader begin to write', () => {
    const inner = 'w0.0.c0k0.1';
    expect(broken(inOrder(reads(A, 100, 200), writes(inner, 150, 160, A)))).toEqual(['an upgrade']);
    const refused = (inside?: string): Noted[] => [
      [150, { ...CALL, id: inner, half: 'write', ...(inside ? { inside } : {}) }],
      [151, { what: 'refused', id: inner, code: 'LOCK_UPGRADE', message: '' }],
    ];
    expect(broken(inOrder(reads(A, 100, 200), refused(A)))).toEqual([]);
    expect(broken(inOrder(reads(A, 100, 200), refused()))).toEqual(['an odd error']);
    expect(broken(inOrder(writes(A, 100, 200), refused(A)))).toEqual(['an odd error']);
  });

  it('that was forced excuses the holders of the half that was forced', () => {
    const forced = (half: 'read' | 'write'): Noted[] => [
      [120, { what: 'forcing', id: 'f', locks: [LOCK], half }],
      [121, { what: 'forced', id: 'f', locks: [LOCK], isKnown: true }],
    ];
    const both = inOrder(reads(A, 100, 200), writes(B, 150, 180));
    expect(broken(inOrder(both, forced('write')))).toEqual(['two holders']);
    // Nobody else is reported; a holder that released after it, without an error, is.
    expect(broken(inOrder(both, forced('read')))).toEqual(['a loss that was not told']);
    expect(broken(inOrder(reads(A, 100, 200), forced('write')))).toEqual([]);
  });

  it('lets callers in side by side that enter in any order, and nobody past a waiter', () => {
    const called: Noted = [200, { ...CALL, id: A, isFair: true, half: 'read' }];
    const waits: Noted = [290, { what: 'waiting', lock: LOCK, owner: `${A}:1` }];
    const [, ...late] = reads(A, 500, 600);
    const order = inOrder([called, waits], reads(B, 300, 400), late);
    expect(broken(order, [look(310, [A, 1], [B, 1])])).toEqual([]);
    expect(broken(order, [look(310, [B, 1])])).toEqual(['an overtaking']);
  });
});

it('a deleted key excuses the order of its line, and a loss only if it was that of the holders', () => {
  const late = held(A, 500, 600, { isFair: true, permits: 1 });
  const waits: Noted = [290, { what: 'waiting', lock: LOCK, owner: `${A}:1` }];
  const called: Noted = [200, { ...CALL, id: A, isFair: true, permits: 1 }];
  const order = inOrder(
    [called, waits],
    held(B, 300, 400, { isFair: true, permits: 1 }),
    late.slice(1),
  );
  const looks = [look(310, [B, 1])];
  const deleted = {
    nemesis: 'delete a key',
    clients: [],
    disorders: [LOCK],
    from: 280,
    until: 281,
  };
  expect(rulesBroken(order, { plan: SEMAPHORE, looks })).toEqual(['an overtaking']);
  expect(rulesBroken(order, { plan: SEMAPHORE, looks, faults: [deleted] })).toEqual([]);
  const gone = held(A, 100, 200, { permits: 1 });
  const line = { ...deleted, from: 120, until: 121 };
  const none = [look(130)];
  expect(rulesBroken(gone, { plan: SEMAPHORE, looks: none, faults: [line] })).toEqual([
    'not on the server',
  ]);
  const holders = { ...line, loses: [LOCK], endsHolds: true, isCertain: true };
  // It excuses the server, and not a missing report.
  expect(rulesBroken(gone, { plan: SEMAPHORE, looks: none, faults: [holders] })).toEqual([
    'a loss that was not told',
  ]);
});

it('a waiter that wants more permits than there were for a while loses its place, and is not overtaken', () => {
  const called: Noted = [200, { ...CALL, id: A, isFair: true, permits: 2 }];
  const waits: Noted = [290, { what: 'waiting', lock: LOCK, owner: `${A}:1` }];
  const [, ...late] = held(A, 500, 600, { isFair: true, permits: 2 });
  const order = inOrder([called, waits], held(B, 300, 400, { isFair: true, permits: 1 }), late);
  const broken = (...notes: Noted[][]): string[] =>
    rulesBroken(inOrder(order, ...notes), { plan: CHANGED, looks: [look(310, [B, 1])] });
  expect(broken()).toEqual(['an overtaking']);
  expect(broken(set(1, 292, 294), set(2, 410, 420))).toEqual([]);
  expect(broken(set(1, 410, 420), set(2, 430, 440))).toEqual(['an overtaking']); // after B had entered
});

it('in calm times the first waiter for which there is room is let in at once, and learns of it', () => {
  const calm = 1e6 + 5_000;
  const books = { capacity: 2, used: 0, mistake: undefined, first: { owner: 'x:1', count: 1 } };
  const idle = (ms: number): LookMade[] =>
    [0, 1, 2].flatMap((turn) =>
      Array.from({ length: ms / 10 }, (_, i): LookMade => {
        const from = calm + 1_000 * turn + 10 * i;
        return { from, until: from + 1, books: i === 0 ? { ...books, first: undefined } : books };
      }),
    );
  expect(rulesBroken([], { plan: SEMAPHORE, looks: idle(300) })).toEqual(['nobody is woken']);
  expect(rulesBroken([], { plan: SEMAPHORE, looks: idle(100) })).toEqual([]);
  const full = idle(300).map((each) => ({ ...each, holders: [{ owner: 'y:1', count: 2 }] }));
  expect(rulesBroken([], { plan: SEMAPHORE, looks: full })).toEqual([]);
  const unheard = (ms: number): { notes: Noted[]; looks: LookMade[] } => {
    const turns = [0, 1, 2].map((turn) => `w0.0.c0k0.${turn}`);
    const at = (turn: number): number => calm + 2_000 * turn;
    return {
      notes: turns.flatMap((id, turn) => held(id, at(turn), at(turn) + 50, { permits: 1 })),
      looks: turns.map((id, turn) => look(at(turn) - ms, [id, 1])),
    };
  };
  const { notes, looks } = unheard(300);
  expect(rulesBroken(notes, { plan: SEMAPHORE, looks })).toEqual(['nobody is woken']);
  const soon = unheard(100);
  expect(rulesBroken(soon.notes, { plan: SEMAPHORE, looks: soon.looks })).toEqual([]);
});

it('keys are deleted only of locks whose rules know of it, and other plans are unchanged', () => {
  const nemeses = (kind: 'fair' | 'semaphore'): string[] =>
    Array.from({ length: 30 }, (_, seed) => planRound(kind, seed).faults)
      .flat()
      .map(({ nemesis }) => nemesis);
  expect(nemeses('semaphore')).toContain('delete a key');
  expect(nemeses('fair')).not.toContain('delete a key');
});
