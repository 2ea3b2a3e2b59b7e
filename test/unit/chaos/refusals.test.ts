// Calls that fail as unavailable although all is well: which ones the checker of the fault campaign reports.
import { expect, it } from 'vitest';
import { CALL, held, violationsIn, type Noted } from '../../support/checked-history.js';
import type { Plan } from '../../chaos/plan.js';

const A = 'w0.0.c0k0.1';
/** All is healed at 1e6. */
const CALM = 1e6 + 5_000;
const PLAN = { commandTimeoutMs: 500, nodeTimeoutMs: 200 };

const BEFORE = held('w0.0.c0k0.0', 1e6 + 100, 1e6 + 200);

/** A section that is refused this many milliseconds after its call. */
function refused(from: number, call: object = {}, code = 'REDIS_UNAVAILABLE'): Noted[] {
  return [
    [from, { ...CALL, waitMs: 0, ...call, id: A }],
    [from + 500, { what: 'refused', id: A, code, message: 'no answer' }],
  ];
}

function rules(
  notes: readonly Noted[],
  more: Parameters<typeof violationsIn>[1] = {},
  plan: Partial<Plan> = {},
): string[] {
  return violationsIn(notes, { ...more, plan: { ...PLAN, ...plan } }).map(({ rule }) => rule);
}

it('the error that Redis does not answer is reported when all has been well for long', () => {
  expect(rules([...BEFORE, ...refused(CALM)])).toEqual(['a refusal for nothing']);
  expect(rules([...BEFORE, ...refused(CALM, {}, 'LOCK_TIMEOUT')])).toEqual([]);
  expect(rules([...BEFORE, ...refused(1e6 + 3_900)])).toEqual([]);
});

it('a missing quorum is reported if each master had time', () => {
  const notes = [...BEFORE, ...refused(CALM, { waitMs: 1_000 }, 'NO_QUORUM')];
  expect(rules(notes, {}, { kind: 'red', topology: 'masters' })).toEqual(['a refusal for nothing']);
  const brief = { kind: 'red', topology: 'masters', nodeTimeoutMs: 100 } as const;
  expect(rules(notes, {}, brief)).toEqual([]);
});

it('a release without an answer is reported as well', () => {
  const released = held(A, CALM, CALM + 50).map(([at, note]): Noted => {
    if (note.what !== 'left') return [at, note];
    return [at + 500, { ...note, code: 'REDIS_UNAVAILABLE', message: 'not known to be released' }];
  });
  expect(rules([...BEFORE, ...released])).toEqual(['a refusal for nothing']);
});

it('a caller is not reported that gave little time, has just come, or is being closed', () => {
  expect(rules([...BEFORE, ...refused(CALM, { waitMs: 100 })])).toEqual([]);
  expect(rules([...BEFORE, ...refused(CALM, { waitMs: 200 })])).not.toEqual([]);
  expect(rules([...BEFORE, ...refused(CALM, { waitMs: 200 })], { unnotedMs: 100 })).toEqual([]);
  expect(rules([...BEFORE, ...refused(CALM, { leaseMs: 42 })])).toEqual([]);
  expect(rules(refused(CALM))).toEqual([]);
  const elsewhere = held('w0.0.c0k0.0', 1e6 + 100, 1e6 + 200, { locks: ['y'] });
  expect(rules([...elsewhere, ...refused(CALM)])).toEqual([]);
  const closing: Noted = [CALM + 400, { what: 'closing', client: CALL.client }];
  expect(rules([...BEFORE, ...refused(CALM), closing])).toEqual([]);
});

it('a caller is not reported if the machine or a server was slow, or a fault never ended', () => {
  const notes = [...BEFORE, ...refused(CALM)];
  expect(rules([...notes, [CALM + 300, { what: 'lagged', ms: 60 }]])).toEqual([]);
  expect(rules(notes, { looks: [{ from: CALM + 10, until: CALM + 140 }] })).toEqual([]);
  expect(rules(notes, { looks: [{ from: CALM + 10, until: CALM + 130 }] })).not.toEqual([]);
  const faults = [{ nemesis: 'a replica takes over in order', from: 5, until: Infinity }];
  expect(rules(notes, { faults })).toEqual([]);
});
