// The table at the end, and what to make of it.

import { seconds } from '../support/figures.js';
import { table } from '../support/table.js';
import type { FairState } from './scene.js';

/** "At once", on a machine that is busy: a renewal of a place in line is due later. */
const AT_ONCE_MS = 500;

export function report(state: FairState): string {
  const { handOvers, outOfOrder, longestWaitMs, firstKilledMs, holderKilledMs, lostCents } = state;
  return table(
    [
      ['', 'fair lock'],
      ['hand-overs', String(handOvers)],
      ['out of order', String(outOfOrder)],
      ['longest wait', seconds(longestWaitMs, 2)],
      [
        'takeover, first in line killed',
        firstKilledMs === undefined ? 'never' : `${firstKilledMs.toFixed(1)} ms`,
      ],
      [
        'takeover, holder killed',
        holderKilledMs === undefined ? 'never' : seconds(holderKilledMs, 2),
      ],
      ['cents lost', String(lostCents)],
    ],
    32,
  );
}

export const MORAL =
  'Out of order: how often somebody got in, or into the line, ahead of one who stood\n' +
  'there before, by looks at the line ten times a second. Whoever goes out hands the\n' +
  'lock to the first in line that can still be told; so the dead one there delayed\n' +
  'nobody. The dead holder had written nothing yet, and nobody renewed its lease any\n' +
  'more: when the 3 s were over, the lock went on. The longest wait includes that.';

/** What was seen that must not be. */
export function findBug(state: FairState): string | undefined {
  const { outOfOrder, lostCents, firstKilledMs, holderKilledMs } = state;
  if (outOfOrder > 0) return `${outOfOrder} times somebody came out of order`;
  if (lostCents > 0) return `${lostCents} cents were lost`;
  if (firstKilledMs === undefined) return 'After the kill of the first in line nobody got in';
  if (firstKilledMs > AT_ONCE_MS) return 'The place of a dead process held up the line';
  if (holderKilledMs === undefined) return 'After the kill of the holder nobody got in';
  return undefined;
}
