// The workers and their tokens, the accounts, and what is missing there.

import { styleText } from 'node:util';
import { accountRows } from '../support/account-rows.js';
import type { Worker } from '../support/crew.js';
import { fault, seconds } from '../support/figures.js';
import type { FencedState } from './scene.js';

export function frame(state: FencedState): string[] {
  const { workers, accounts, transfers, largestToken, lostCents } = state;
  return [
    ...workers.map((worker) => workerRow(worker, state)),
    '',
    ...accountRows(accounts),
    '',
    [
      `  transfers ${transfers}`,
      ...(largestToken === undefined ? [] : [`largest token seen ${largestToken}`]),
      fault('cents lost', lostCents),
    ].join('  '),
    '',
  ];
}

function workerRow(worker: Worker, { tokens }: FencedState): string {
  const { name, state, sinceMs } = worker;
  const forTime = seconds(performance.now() - sinceMs, 1);
  const token = tokens.has(worker) ? `   token ${tokens.get(worker)!}` : '';
  switch (state) {
    case 'holds':
      return `  ${name}   ${styleText('green', `● holds the lock${token}`)}`;
    case 'paused':
      return `  ${name}   ${styleText('yellow', `■ paused ${forTime}${token}`)}`;
    case 'waits':
      return `  ${name}   ○ waits ${forTime}`;
    case 'starts':
    case 'transfers':
    case 'rests':
    case 'killed':
      return `  ${name}   ${styleText('dim', '· between two transfers')}`;
  }
}
