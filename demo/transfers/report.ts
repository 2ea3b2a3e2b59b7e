// The table at the end, and what to make of it.

import { seconds } from '../support/figures.js';
import { table } from '../support/table.js';
import type { TransfersState } from './scene.js';

/** Both scenes side by side. */
export function report(bare: TransfersState, locked: TransfersState): string {
  const rows = [
    ['', 'without locks', 'under holdfast'],
    ['transfers', String(bare.transfers), String(locked.transfers)],
    ['cents lost', bare.lostCents.toLocaleString('en'), locked.lostCents.toLocaleString('en')],
    ['hand-overs of the lock', '-', String(locked.handOvers)],
    ['longest wait', '-', seconds(locked.longestWaitMs, 2)],
    ['takeover after the kill', '-', takeover(locked)],
  ];
  return table(rows, 24);
}

export const MORAL =
  'Cents lost: by how much the balances differ from a ledger that is written in\n' +
  'the same transactions. Under holdfast it is not a cent. The killed process had\n' +
  'written nothing yet, and nobody renewed its lease any more: when the 3 s were\n' +
  'over, the lock went on to the next. The longest wait includes that.';

/** What was seen under holdfast that must not be. */
export function findBug({ lostCents, takeoverMs }: TransfersState): string | undefined {
  if (lostCents > 0) return `Under holdfast ${lostCents} cents were lost`;
  if (takeoverMs === undefined) return 'After the kill nobody got the lock';
  return undefined;
}

function takeover({ takeoverMs }: TransfersState): string {
  return takeoverMs === undefined ? 'never' : seconds(takeoverMs, 2);
}
