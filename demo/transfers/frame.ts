// The workers and the accounts, and what is missing there.

import { styleText } from 'node:util';
import { accountRows } from '../support/account-rows.js';
import type { Worker } from '../support/crew.js';
import { fault, rate, seconds } from '../support/figures.js';
import type { TransfersState } from './scene.js';

export function frame(state: TransfersState): string[] {
  const { plan, workers, accounts, transfers, elapsedMs, handOvers, longestWaitMs } = state;
  return [
    ...workers.map(workerRow),
    '',
    ...accountRows(accounts),
    '',
    [
      `  transfers ${transfers} (${rate(transfers, elapsedMs)})`,
      ...(plan.lock !== 'none'
        ? [`hand-overs ${handOvers}`, `longest wait ${seconds(longestWaitMs, 2)}`]
        : []),
      fault('cents lost', state.lostCents),
    ].join('  '),
    '',
  ];
}

function workerRow({ name, state, sinceMs }: Worker): string {
  const forTime = seconds(performance.now() - sinceMs, 1);
  switch (state) {
    case 'holds':
      return `  ${name}   ${styleText('green', '● holds the lock')}`;
    case 'waits':
      return `  ${name}   ○ waits ${forTime}`;
    case 'transfers':
      return `  ${name}   ● reads, thinks, writes`;
    case 'killed':
      return `  ${name}   ${styleText('red', `✗ killed ${forTime} ago`)}`;
    case 'starts':
    case 'paused':
    case 'rests':
      return `  ${name}   ${styleText('dim', '· between two transfers')}`;
  }
}
