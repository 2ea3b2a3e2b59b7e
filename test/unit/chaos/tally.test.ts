// What a campaign concludes from all its rounds.
import { expect, it, vi } from 'vitest';
import type { Evidence } from '../../chaos/checker/evidence.js';
import { History } from '../../chaos/checker/history.js';
import { planRound } from '../../chaos/plan-round.js';
import { Tally } from '../../chaos/report/tally.js';
import type { RoundResult } from '../../chaos/round.js';
import { held, LOCK } from '../../support/checked-history.js';

const PLAN = { ...planRound('fenced', 1), locks: [LOCK], topology: 'single' } as const;
const LOOK = { from: 100, until: 101, server: 0, lock: LOCK, holders: [], ttlMs: 500 };
const FAULT = { nemesis: 'cut connections', from: 100, until: 110, detail: '' };

/** A round in which this many wrote under fenced locks, and this many of them were refused. */
function round(
  writes: number,
  refused: number,
  { plan = PLAN, ...more }: Partial<Evidence> = {},
): RoundResult {
  const history = new History(1);
  for (let i = 0; i < writes; i++) {
    const id = `w0.0.c0k0.${i}`;
    for (const [at, note] of held(id, 100, 200, { token: '7' })) history.take({ at, ...note }, '');
    history.take({ at: 150, what: 'writing', id }, '');
    history.take({ at: 151, what: 'wrote', id, ...(i < refused ? { refusedBy: '8' } : {}) }, '');
  }
  const seen = { faults: [FAULT], looks: [LOOK], ...more };
  const evidence = { plan, history, ...seen, healedAt: 0, stoppedAt: 0, ownLags: [] };
  return { plan, evidence, violations: [], mess: { commands: 0, messages: 0 }, tookMs: 1 };
}

/** Whether a campaign of these rounds is sound, and its whole output. */
function told(...rounds: readonly RoundResult[]): { isSound: boolean; text: string } {
  const tally = new Tally();
  for (const each of rounds) tally.add(each);
  const log = vi.spyOn(console, 'log').mockImplementation(() => undefined);
  tally.print();
  const text = log.mock.calls.flat().join('\n');
  log.mockRestore();
  return { isSound: tally.isSound, text };
}

it('a campaign in which many wrote under fenced locks and nobody was refused is not sound', () => {
  const tally = new Tally();
  tally.add(round(60, 0));
  expect(tally.isSound).toBe(true); // too few to tell
  tally.add(round(60, 0));
  expect(tally.isSound).toBe(false);
  tally.add(round(10, 1));
  expect(tally.isSound).toBe(true);
});

it('a round with a violation makes it unsound', () => {
  const tally = new Tally();
  const violation = { rule: 'two holders', at: 0, message: '', sections: [] };
  tally.add({ ...round(1, 0), violations: [violation] });
  expect(tally.isSound).toBe(false);
});

it('a campaign that saw nothing is not sound: no round, nobody inside, no query, no fault', () => {
  expect(told(round(1, 0)).isSound).toBe(true);
  const nothing = (...rounds: readonly RoundResult[]): string => {
    const { isSound, text } = told(...rounds);
    expect(isSound).toBe(false);
    return text;
  };
  expect(nothing()).toContain('No round was played.');
  expect(nothing(round(0, 0))).toContain('nobody ever held a lock');
  expect(nothing(round(1, 0, { looks: [] }))).toContain('no server was ever looked at');
  expect(nothing(round(1, 0, { faults: [] }))).toContain('faults none happened');
});

it('results of one kind of lock, on one kind of servers, prove nothing for another', () => {
  const plan = { ...PLAN, kind: 'fair' } as const;
  expect(told(round(1, 0), round(0, 0, { plan })).text).toContain('fair, single: nobody');
  expect(told(round(1, 0), round(0, 0)).isSound).toBe(true);
});

it('rounds of kept locks in which nobody used what its client had kept prove nothing', () => {
  const plan = { ...PLAN, kind: 'kept' } as const;
  const none = round(1, 0, { plan });
  expect(told(none)).toMatchObject({ isSound: false });
  expect(told(none).text).toContain('nobody used a lock that its client had kept');
  const some = round(1, 0, { plan });
  some.evidence.history.take({ at: 1, what: 'kept', lock: LOCK, owner: 'a:1' }, '');
  expect(told(some).isSound).toBe(true);
});

it('if no faults were requested, none need to happen', () => {
  const plan = { ...PLAN, faults: [] };
  expect(told(round(1, 0, { plan, faults: [] })).isSound).toBe(true);
});

it('a lock whose holder no server ever named makes a campaign unsound', () => {
  const plan = { ...PLAN, locks: [LOCK, 'y'] };
  const { isSound, text } = told(round(1, 0, { plan }));
  expect(isSound).toBe(false);
  expect(text).toContain('no server ever said who has "y"');
});

it('a fault that was not over when its round was is reported, since it excuses what came after it', () => {
  const fault = { ...FAULT, nemesis: 'a replica takes over in order', until: Infinity };
  const { isSound, text } = told(round(1, 0, { faults: [fault] }));
  expect(isSound).toBe(true);
  expect(text).toContain('fenced 1: a replica takes over in order');
});

/** A round in which a lock is taken away this often, and so many former holders go on for 5 s, whose connections were cut. */
function takings(count: number, excused: number): RoundResult {
  const plan = { ...PLAN, watchdogMs: 9_000 };
  const history = new History(1);
  const faults = Array.from({ length: count }, (_, i) => i * 20_000).flatMap((at, i) => {
    const isExcused = i < excused;
    const former = held(`w0.0.c0k0.${i}`, at, at + (isExcused ? 7_000 : 2_005));
    const next = held(`w1.0.c0k0.${i}`, at + 2_010, at + 9_000);
    for (const [when, note] of [...former, ...next]) history.take({ at: when, ...note }, '');
    const taken = { from: at + 2_000, until: at + 2_000, detail: '', loses: [LOCK] };
    const cut = { ...FAULT, clients: [0], from: at + 3_000, until: at + 3_000 };
    const deleted = { ...taken, nemesis: 'delete a lock', clients: [], isDeletion: true };
    return isExcused ? [deleted, cut] : [deleted];
  });
  return round(0, 0, { plan, history, faults });
}

it('a campaign is unsound if connections excuse more than one in twenty of the locks that were taken away', () => {
  expect(told(takings(60, 3)).isSound).toBe(true);
  const { isSound, text } = told(takings(60, 4));
  expect(isSound).toBe(false);
  expect(text).toContain('Of 60 locks that were taken away from holders, 4 are excused');
  expect(told(takings(20, 4)).isSound).toBe(true); // too few to tell
});
