// The verdict of the demo on fencing tokens: it fails unless the run showed everything that the demo is about.
import { expect, it } from 'vitest';
import { findBug } from '../../../demo/scenes/fenced.js';

const BARE = { takeoverMs: 2_900, meanwhile: 80, lateWrite: 'accepted', lostCents: 700 } as const;
const FENCED = { ...BARE, lateWrite: 'refused', lostCents: 0 } as const;

it('finds nothing wrong where the late write destroys money without tokens and is refused with them', () => {
  expect(findBug(BARE, FENCED)).toBeUndefined();
});

it.each([
  { what: 'nobody else acquired the lock', bare: { takeoverMs: undefined } },
  { what: 'nobody else acquired the lock', fenced: { takeoverMs: undefined } },
  { what: 'nobody else wrote', bare: { meanwhile: 0 } },
  { what: 'nobody else wrote', fenced: { meanwhile: 0 } },
  { what: 'never wrote', bare: { lateWrite: undefined } },
  { what: 'never wrote', fenced: { lateWrite: undefined } },
  { what: 'Without tokens the late write was refused', bare: { lateWrite: 'refused' } },
  { what: 'Without tokens the late write destroyed nothing', bare: { lostCents: 0 } },
  { what: 'With tokens the late write was accepted', fenced: { lateWrite: 'accepted' } },
  { what: 'With tokens 7 cents were lost', fenced: { lostCents: 7 } },
] as const)('reports a run in which $what ($bare, $fenced)', ({ what, ...seen }) => {
  const bare = 'bare' in seen ? seen.bare : {};
  const fenced = 'fenced' in seen ? seen.fenced : {};
  expect(findBug({ ...BARE, ...bare }, { ...FENCED, ...fenced })).toContain(what);
});
