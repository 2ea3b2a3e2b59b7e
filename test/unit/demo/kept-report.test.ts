// The verdict of the demo on kept locks: it fails unless the run showed everything that the demo is about.
import { expect, it } from 'vitest';
import { findBug } from '../../../demo/scenes/kept.js';

const BARE = { pairsPerSecond: 2_000, takeoverMs: undefined, afterwards: 0, lostCents: 0 };
const KEPT = { pairsPerSecond: 60_000, takeoverMs: 900, afterwards: 40, lostCents: 0 };

it('finds nothing wrong where the kept lock is faster and goes on after the kill', () => {
  expect(findBug(BARE, KEPT)).toBeUndefined();
});

it.each([
  { what: '7 cents were lost', bare: { lostCents: 7 } },
  { what: '7 cents were lost', kept: { lostCents: 7 } },
  { what: 'With keep the lock was no faster', kept: { pairsPerSecond: 1_900 } },
  { what: 'nobody acquired the lock', kept: { takeoverMs: undefined } },
  { what: 'nobody wrote', kept: { afterwards: 0 } },
])('reports a run in which $what ($bare, $kept)', ({ what, bare, kept }) => {
  expect(findBug({ ...BARE, ...bare }, { ...KEPT, ...kept })).toContain(what);
});
