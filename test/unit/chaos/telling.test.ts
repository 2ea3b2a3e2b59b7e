// Whether losses were reported, in all ways and in time: what the checker of the fault campaign reports.
import { expect, it } from 'vitest';
import { held, LOCK, violationsIn, type Noted } from '../../support/checked-history.js';

const A = 'w0.0.c0k0.0';

const LOST = { code: 'LOCK_LOST', message: '', reason: 'deleted' } as const;
/** The explanation of the loss, and its time. */
const FAULTS = [
  { nemesis: 'a replica takes over', from: 145, until: 146, loses: 'all', endsHolds: true },
] as const;

interface LosesHow {
  readonly contradicts?: boolean;
  /** Further notes while it is inside. */
  readonly inside?: readonly Noted[];
  readonly event?: readonly Noted[];
  readonly left?: typeof LOST | object;
}

/** A section that enters at 100, believes at 140, knows at 150 that it has lost the lock, and leaves at 160. */
function loses({ contradicts = false, inside = [], event, left = LOST }: LosesHow = {}): Noted[] {
  return [
    ...held(A, 100, 140).slice(0, 3),
    [150, { what: 'doubts', id: A, contradicts }],
    ...(event ?? [[151, { what: 'lost', lock: LOCK, owner: `${A}:1`, reason: 'deleted' }]]),
    ...inside,
    [160, { what: 'leaving', id: A }],
    [161, { what: 'left', id: A, ...left }],
  ];
}

/** The violations about losses. */
function untold(
  notes: readonly Noted[],
  faults: Parameters<typeof violationsIn>[1] = {},
): string[] {
  return violationsIn(notes, { faults: [...FAULTS], ...faults }).map(({ rule, message }) => {
    expect(rule).toBe('a loss that was not told');
    return message.replace(/^\S+ \(\S+\) /, '');
  });
}

it('a loss that is reported in all ways is accepted', () => {
  expect(untold(loses())).toEqual([]);
});

it('a loss that its release did not report is reported', () => {
  expect(untold(loses({ left: {} }))).toEqual(['had lost the lock, and its release succeeded']);
});

it('a loss without an event is reported, if its process had time for one', () => {
  const later = (at: number): Noted => [at, { what: 'warned', message: 'something else' }];
  const silent = loses({ event: [] });
  expect(untold([...silent, later(1_150)])).toEqual([]);
  expect(untold([...silent, later(1_151)])).toEqual(['had lost the lock, and no event said so']);
  expect(untold([...loses(), later(1_151)])).toEqual([]);
});

it('a holder is reported whose remaining() and signal contradict each other', () => {
  expect(untold(loses({ contradicts: true }))).toEqual([
    'was told by remaining() and by its signal different things',
  ]);
});

it('a holder that believes again after it knew of its loss is reported', () => {
  const inside: Noted[] = [[155, { what: 'believes', id: A, leftMs: 900 }]];
  expect(untold(loses({ inside }))).toEqual(['believed again after it had known of its loss']);
});

it('a holder that believes for longer than a lease after its key was certainly gone is reported', () => {
  const faults = [{ from: 150, until: 160, loses: 'all', endsHolds: true } as const];
  const until = (at: number): Noted[] => [
    ...held(A, 100, at).slice(0, 4),
    [at + 2, { what: 'left', id: A, ...LOST }],
  ];
  expect(untold(until(1_180), { faults })).toEqual([]);
  expect(untold(until(1_190), { faults })).toEqual([
    'believed 1030 ms after its key had gone (restart a server)',
  ]);
});

it('a release that succeeds after its lock was certainly gone is reported', () => {
  const forced: Noted[] = [
    [150, { what: 'forcing', id: 'f', locks: [LOCK] }],
    [151, { what: 'forced', id: 'f', locks: [LOCK], isKnown: true }],
  ];
  const left = 'released what had gone (forceUnlock), and was told that all was well';
  expect(untold([...held(A, 100, 200), ...forced], { faults: [] })).toEqual([left]);
  const before = forced.map(([at, note]): Noted => [at - 100, note]);
  expect(untold([...held(A, 100, 200), ...before], { faults: [] })).toEqual([]);
});
