// The checker of the fault campaign and fencing tokens: what it reports, and what it must not.
import { expect, it } from 'vitest';
import type { Look } from '../../chaos/checker/looks.js';
import type { Fault } from '../../chaos/faults.js';
import type { Fencing } from '../../chaos/plan.js';
import { CALL, held, LOCK, rulesBroken, type Noted } from '../../support/checked-history.js';

const A = 'w0.0.c0k0.0';
const B = 'w1.0.c0k0.0';
const FENCING: Fencing = { fairShare: 0, tokenTtlMs: undefined };

/** A server that lost everything. */
function forgets(from: number, until: number): Partial<Fault> {
  return { from, until, loses: 'all', endsHolds: true };
}

/** A server's clock that is ahead by this much meanwhile. */
function steps(from: number, until: number, aheadMs: number): Partial<Fault> {
  const nemesis = "step a server's wall clock";
  return { nemesis, from, until, loses: 'all', endsHolds: true, aheadMs };
}

/** A section that called long before it entered. */
function waited(id: string, calledAt: number, from: number, until: number, token: string): Noted[] {
  return [[calledAt, { ...CALL, id }], ...held(id, from, until, { token }).slice(1)];
}

/**
 * A section whose lease of 100 ms was over, and that wrote at that time nevertheless; `refusedBy`: the token that the document had seen.
 */
function wroteLate(
  id: string,
  from: number,
  at: number,
  token: string,
  refusedBy?: string,
): Noted[] {
  return [
    [from - 1, { ...CALL, leaseMs: 100, isWatched: false, id }],
    [from, { what: 'entered', id, owner: `${id}:1`, leftMs: 98, token }],
    [from + 90, { what: 'believes', id, leftMs: 8 }],
    [from + 99, { what: 'doubts', id, contradicts: false }],
    [at, { what: 'writing', id }],
    [at + 1, { what: 'wrote', id, refusedBy }],
    [at + 2, { what: 'leaving', id }],
    [at + 3, { what: 'left', id, code: 'LOCK_LOST', message: '' }],
  ];
}

/** A section that wrote while it believed. */
function wrote(
  id: string,
  from: number,
  until: number,
  token: string,
  refusedBy?: string,
): Noted[] {
  const [called, entered, ...rest] = held(id, from, until, { token });
  return [
    called!,
    entered!,
    [from + 1, { what: 'writing', id }],
    [from + 2, { what: 'wrote', id, refusedBy }],
    ...rest,
  ];
}

function broken(
  notes: readonly (readonly Noted[])[],
  faults: Partial<Fault>[] = [],
  looks: Partial<Look>[] = [],
  fencing = FENCING,
): string[] {
  return rulesBroken(notes.flat(), { faults, looks, plan: { kind: 'fenced', fencing } });
}

it('growing tokens are accepted; one that is smaller than, or equal to, an earlier one is reported', () => {
  const first = held(A, 100, 200, { token: '7' });
  expect(broken([first, held(B, 205, 300, { token: '8' })])).toEqual([]);
  expect(broken([first, held(B, 205, 300, { token: '6' })])).toEqual(['tokens do not grow']);
  expect(broken([first, held(B, 205, 300, { token: '7' })])).toEqual(['tokens do not grow']);
});

it('locks of other names have tokens of their own', () => {
  const other = held(B, 205, 300, { token: '6', locks: ['y'] });
  expect(broken([held(A, 100, 200, { token: '7' }), other])).toEqual([]);
});

it('a holder that believed when it entered has a larger token than earlier ones, however long it had waited', () => {
  const first = held(A, 100, 200, { token: '7' });
  expect(broken([first, waited(B, 50, 205, 300, '8')])).toEqual([]);
  expect(broken([first, waited(B, 50, 205, 300, '6')])).toEqual(['tokens do not grow']);
});

it('a holder that was stopped between its grant and its entry may have been granted the lock before earlier entries', () => {
  const late: Noted[] = [
    [50, { ...CALL, id: B }],
    [205, { what: 'entered', id: B, owner: `${B}:1`, leftMs: 0, token: '6' }],
    [206, { what: 'doubts', id: B, contradicts: false }],
    [207, { what: 'leaving', id: B }],
    [208, { what: 'left', id: B, code: 'LOCK_LOST', message: '' }],
  ];
  const first = held(A, 100, 200, { token: '7' });
  expect(broken([first, late])).toEqual([]);
  const called: Noted = [101, { ...CALL, id: B }];
  expect(broken([first, [called, ...late.slice(1)]])).toEqual(['tokens do not grow']);
});

it('a server that forgot the last token excuses nothing, nor does a clock that was set back; both together do, by that much', () => {
  const first = held(A, 100, 140, { token: '9000000' });
  const second = held(B, 205, 300, { token: '7000000' });
  const smallest = held(B, 205, 300, { token: '5000000' });
  const [forgot, set] = [forgets(150, 160), steps(50, 120, 3_000)];
  expect(broken([first, second], [forgot])).toEqual(['tokens do not grow']);
  expect(broken([first, second], [set])).toEqual(['tokens do not grow']);
  expect(broken([first, second], [forgot, set])).toEqual([]);
  expect(broken([first, second], [forgot, steps(50, 120, -3_000)])).toEqual([]);
  expect(broken([first, smallest], [forgot, set])).toEqual(['tokens do not grow']);
  // A loss before the first of them came, or after the second, is no reason.
  expect(broken([first, second], [forgets(80, 90), set])).toEqual(['tokens do not grow']);
  expect(broken([first, second], [forgets(350, 360), set])).toEqual(['tokens do not grow']);
  expect(broken([first, second], [forgot, steps(350, 360, 3_000)])).toEqual(['tokens do not grow']);
});

it('a waiter from before the server forgot has a larger token than earlier holders; after that, the order is not certain', () => {
  const waiter = waited(B, 50, 305, 400, '6');
  expect(broken([held(A, 100, 140, { token: '7' }), waiter], [forgets(150, 160)])).toEqual([
    'tokens do not grow',
  ]);
  expect(broken([held(A, 200, 300, { token: '7' }), waiter], [forgets(150, 160)])).toEqual([]);
  expect(broken([held(A, 200, 300, { token: '6' }), waiter], [forgets(150, 160)])).toEqual([
    'tokens do not grow', // the same one twice
  ]);
  // A loss before its call is no reason.
  expect(broken([held(A, 200, 300, { token: '7' }), waiter], [forgets(20, 30)])).toEqual([
    'tokens do not grow',
  ]);
});

it('a nested holder has the outer token; another one, or none, is reported', () => {
  const outer = held(A, 100, 200, { token: '7' });
  const inner = (token?: string): Noted[] =>
    held('w0.0.c0k0.1', 120, 150, { inside: A, ...(token === undefined ? {} : { token }) });
  expect(broken([outer, inner('7')])).toEqual([]);
  expect(broken([outer, inner('8')])).toEqual(['a wrong token']);
  expect(broken([outer, inner()])).toEqual(['a wrong token']);
  expect(broken([held(A, 100, 200)])).toEqual(['a wrong token']);
});

it('a server that remembers less than a token that it issued is reported, unless it forgot since', () => {
  const holder = held(A, 100, 200, { token: '7' });
  const look = (from: number, counter?: bigint): Partial<Look> => ({
    ...{ from, until: from + 1, owner: from < 200 ? `${A}:1` : undefined, counter },
  });
  expect(broken([holder], [], [look(90), look(150, 7n), look(250, 8n)])).toEqual([]);
  expect(broken([holder], [], [look(150, 6n)])).toEqual(['a forgotten token']);
  expect(broken([holder], [], [look(250)])).toEqual(['a forgotten token']);
  expect(broken([holder], [forgets(220, 230)], [look(250)])).toEqual([]);
  expect(broken([holder], [forgets(50, 60)], [look(250)])).toEqual(['a forgotten token']);
  expect(broken([holder], [steps(220, 230, 3_000)], [look(250)])).toEqual(['a forgotten token']);
});

it('of two servers that both claim to be master one may never have known a token; only with Sentinel there are two', () => {
  const holder = held(A, 100, 200, { token: '7' });
  const look = (server: number, from: number, counter?: bigint): Partial<Look> => ({
    ...{ server, from, until: from + 1, counter },
  });
  const brokenOn = (topology: 'sentinel' | 'cluster', looks: Partial<Look>[]): string[] =>
    rulesBroken(holder, { looks, plan: { kind: 'fenced', fencing: FENCING, topology } });
  const two = [look(0, 250), look(1, 260, 7n)];
  expect(brokenOn('sentinel', two)).toEqual([]);
  expect(brokenOn('sentinel', [look(0, 250), look(0, 260, 7n)])).toEqual(['a forgotten token']);
  expect(brokenOn('cluster', two)).toEqual(['a forgotten token']);
});

it('a token may be forgotten when its time is over, and not before', () => {
  const holder = held(A, 100, 200, { token: '7' });
  const look = (from: number): Partial<Look> => ({ from, until: from + 1 });
  const brief = { ...FENCING, tokenTtlMs: 1_000 };
  expect(broken([holder], [], [look(1_050)], brief)).toEqual(['a forgotten token']);
  expect(broken([holder], [], [look(1_150)], brief)).toEqual([]);
});

it('an accepted write after one of a later holder is reported; a refused one is not', () => {
  const next = wrote(B, 250, 300, '8');
  expect(broken([wroteLate(A, 100, 400, '7', '8'), next])).toEqual([]);
  expect(broken([wroteLate(A, 100, 400, '7'), next])).toEqual(['a stale write']);
  expect(broken([wroteLate(A, 100, 240, '7'), next])).toEqual([]); // nobody else has written yet
  // The document cannot know more than the tokens say.
  expect(broken([wroteLate(A, 100, 400, '8'), next])).toContain('a stale write');
  expect(broken([wroteLate(A, 100, 400, '9'), next])).toContain('a stale write');
});

it('a write with an older token after a newer one is reported even if the order of the grants is unknown', () => {
  const unsure: Noted[] = [
    [50, { ...CALL, id: B }],
    [205, { what: 'entered', id: B, owner: `${B}:1`, leftMs: 0, token: '6' }],
    [206, { what: 'doubts', id: B, contradicts: false }],
    [210, { what: 'writing', id: B }],
    [211, { what: 'wrote', id: B }],
    [212, { what: 'leaving', id: B }],
    [213, { what: 'left', id: B, code: 'LOCK_LOST', message: '' }],
  ];
  expect(broken([wrote(A, 100, 200, '7'), unsure])).toEqual(['a stale write']);
});

it('a write with an unknown outcome is not reported', () => {
  const [called, entered, believes, doubts, writing] = wroteLate(A, 100, 400, '7');
  const killed = [called!, entered!, believes!, doubts!, writing!];
  expect(broken([killed, wrote(B, 250, 300, '8')])).toEqual([]);
});

it('a holder whose write is refused is reported, unless a noted event cost it the lock', () => {
  expect(broken([wrote(A, 100, 200, '7', '8')])).toEqual(['a refused holder']);
  expect(broken([wrote(A, 100, 200, '7', '8')], [forgets(95, 101)])).toEqual([]);
  expect(broken([wrote(A, 100, 200, '7', '8')], [forgets(150, 160)])).toEqual(['a refused holder']);
  // The last token was lost, and the clock had been set back: nobody writes with the next one.
  const earlier = wrote(A, 100, 140, '9000000');
  const refused = wrote(B, 205, 300, '7000000', '9000000');
  const faults = [forgets(150, 160), steps(50, 120, 3_000)];
  expect(broken([earlier, refused], faults)).toEqual([]);
  expect(broken([earlier, refused], faults.slice(0, 1))).toContain('a refused holder');
});

it(`the lock "${LOCK}" without tokens has no such rules`, () => {
  expect(rulesBroken(held(A, 100, 200), { looks: [{ from: 250, until: 251 }] })).toEqual([]);
});

it('most masters know the token of a Redlock, apart from those that have just restarted', () => {
  const grant = held(A, 2_100, 2_200, { token: '7' });
  const restarted = (server: number, from: number, until: number): Partial<Fault> => ({
    ...{ nemesis: 'restart a server', servers: [server], endsHolds: true, from, until },
  });
  /** While it had the lock, each master named this token; undefined: it did not answer. */
  const judged = (counters: (string | undefined)[], faults: Partial<Fault>[] = []): string[] => {
    const plan = { kind: 'red', topology: 'masters', masters: 3, fencing: FENCING } as const;
    const heard = [2_110, { what: 'heard', id: A, counters }] as const;
    const broken = rulesBroken([...grant, heard], { faults, plan });
    return broken.filter((rule) => rule === 'a token too few know');
  };
  const wrong = ['a token too few know'];
  expect(judged(['7', '8', '0'])).toEqual([]);
  expect(judged(['7', '6', '0'])).toEqual(wrong);
  expect(judged(['7', undefined, undefined])).toEqual([]);
  expect(judged(['7', '7', '6'], [restarted(0, 1_900, 1_950)])).toEqual(wrong);
  expect(judged(['7', '7', '6'], [restarted(0, 100, 150)])).toEqual([]);
  expect(judged(['7', '0', '6'], [restarted(1, 2_105, 2_108)])).toEqual([]);
});
