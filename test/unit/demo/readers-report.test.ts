// The verdict of the demo on readers and writers: it fails unless the run showed everything that the demo is about.
import { expect, it } from 'vitest';
import type { Worker } from '../../../demo/support/crew.js';
import { findBug, Stays } from '../../../demo/scenes/readers.js';

const LOCKED = {
  transfers: 20,
  wrongSums: 0,
  totalCents: 4_000_00,
  mostReaders: 4,
  intrusions: 0,
  takeoverMs: { reader: 2_900, writer: 2_900 },
} as const;
const BARE = { ...LOCKED, wrongSums: 9, totalCents: 4_002_00, mostReaders: 0, takeoverMs: {} };

it('finds nothing wrong where sums are wrong without a lock and right under it', () => {
  expect(findBug(BARE, LOCKED)).toBeUndefined();
});

it.each([
  { what: 'Without locks all sums were right', bare: { wrongSums: 0 } },
  { what: '3 sums were wrong', locked: { wrongSums: 3 } },
  { what: 'A writer overlapped with another process 2 times', locked: { intrusions: 2 } },
  { what: 'No two readers overlapped', locked: { mostReaders: 1 } },
  { what: 'shut out the writers', locked: { transfers: 0 } },
  { what: 'After a reader was killed', locked: { takeoverMs: { writer: 1 } } },
  { what: 'After a writer was killed', locked: { takeoverMs: { reader: 1 } } },
  { what: 'the accounts held 3,999.50 in total', locked: { totalCents: 3_999_50 } },
])('reports a run in which $what ($bare, $locked)', ({ what, bare, locked }) => {
  expect(findBug({ ...BARE, ...bare }, { ...LOCKED, ...locked })).toContain(what);
});

it('counts overlaps with a writer, and concurrent readers, in whatever order the reports arrive', () => {
  const [w, r1, r2, r3] = ['w', 'r1', 'r2', 'r3'].map((name) => ({ name }) as unknown as Worker);
  const stays = new Stays();
  const stay = (worker: Worker | undefined, fromMs: number, toMs: number): void => {
    stays.enter(worker!, fromMs);
    stays.leave(worker!, toMs, worker === w);
  };
  stay(r2, 20, 40);
  stay(r1, 10, 30);
  stay(r3, 30, 50); // when the first went
  stay(w, 50, 60);
  expect(stays.mostReaders).toBe(2);
  stay(r1, 35, 45);
  expect([stays.mostReaders, stays.intrusions]).toEqual([3, 0]);
  stay(r1, 59, 70);
  stay(w, 69, 80);
  expect([stays.mostReaders, stays.intrusions]).toEqual([3, 2]);
});
