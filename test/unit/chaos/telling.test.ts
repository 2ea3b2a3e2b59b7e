// Whether losses were told, by all ways and in time: what the checker of the fault campaign accuses.
import { expect, it } from 'vitest';
import { held, LOCK, violationsIn, type Noted } from '../../support/checked-history.js';

const A = 'w0.0.c0k0.0';

const LOST = { code: 'LOCK_LOST', message: '', reason: 'deleted' } as const;
/** What explains that it was lost, and when. */
const FAULTS = [
  { nemesis: 'a replica takes over', from: 145, until: 146, loses: 'all', endsHolds: true },
] as const;

interface LosesHow {
  readonly contradicts?: boolean;
  /** What is noted besides, while it is inside. */
  readonly inside?: readonly Noted[];
  readonly event?: readonly Noted[];
  readonly left?: typeof LOST | object;
}

/** One that enters at 100, believes at 140, knows at 150 that it has lost the lock, and leaves at 160. */
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

/** What is told of losses that were not. */
function untold(
  notes: readonly Noted[],
  faults: Parameters<typeof violationsIn>[1] = {},
): string[] {
  return violationsIn(notes, { faults: [...FAULTS], ...faults }).map(({ rule, message }) => {
    expect(rule).toBe('a loss that was not told');
    return message.replace(/^\S+ \(\S+\) /, '');
  });
}

it('a loss that is told by all ways is as it should be', () => {
  expect(untold(loses())).toEqual([]);
});

it('a loss that its release did not tell is accused', () => {
  expect(untold(loses({ left: {} }))).toEqual(['had lost the lock, and its release succeeded']);
});

it('a loss that no event told is accused, when its process had time to tell it', () => {
  const later = (at: number): Noted => [at, { what: 'warned', message: 'something else' }];
  const silent = loses({ event: [] });
  expect(untold([...silent, later(1_150)])).toEqual([]);
  expect(untold([...silent, later(1_151)])).toEqual(['had lost the lock, and no event said so']);
  expect(untold([...loses(), later(1_151)])).toEqual([]);
});

it('who is told by remaining() that it holds the lock and by its signal that it does not is accused', () => {
  expect(untold(loses({ contradicts: true }))).toEqual([
    'was told by remaining() and by its signal different things',
  ]);
});

it('who believes again after it has known of its loss is accused', () => {
  const inside: Noted[] = [[155, { what: 'believes', id: A, leftMs: 900 }]];
  expect(untold(loses({ inside }))).toEqual(['believed again after it had known of its loss']);
});

it('who believes for longer than a lease after its key went for certain is accused', () => {
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

it('who releases what had gone for certain, and is told that all was well, is accused', () => {
  const forced: Noted[] = [
    [150, { what: 'forcing', id: 'f', locks: [LOCK] }],
    [151, { what: 'forced', id: 'f', locks: [LOCK], isKnown: true }],
  ];
  const left = 'released what had gone (forceUnlock), and was told that all was well';
  expect(untold([...held(A, 100, 200), ...forced], { faults: [] })).toEqual([left]);
  const before = forced.map(([at, note]): Noted => [at - 100, note]);
  expect(untold([...held(A, 100, 200), ...before], { faults: [] })).toEqual([]);
});
