// The table at the end, and the verdict.

import { seconds } from '../figures.js';
import { table } from '../table.js';
import type { PhaseState } from './phase.js';

/** Both phases side by side. */
export function report(bare: PhaseState, locked: PhaseState): string {
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

/** Whether the demo showed what it is there to show, and what to say about it. */
export function verdict(locked: PhaseState): { isGood: boolean; text: string } {
  if (locked.lostCents > 0) {
    return { isGood: false, text: `Under holdfast ${locked.lostCents} cents were lost: a bug.` };
  }
  if (locked.takeoverMs === undefined) {
    return { isGood: false, text: 'After the kill nobody got the lock: a bug.' };
  }
  return {
    isGood: true,
    text:
      'Cents lost: by how much the balances differ from a ledger that is written in\n' +
      'the same transactions. Under holdfast it is not a cent. The killed process had\n' +
      'written nothing yet, and nobody renewed its lease any more: when the 3 s were\n' +
      'over, the lock went on to the next. The longest wait includes that.',
  };
}

function takeover({ takeoverMs }: PhaseState): string {
  return takeoverMs === undefined ? 'never' : seconds(takeoverMs, 2);
}
