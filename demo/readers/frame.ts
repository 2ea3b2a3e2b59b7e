// The workers, who of them is inside and who waits, and the accounts.

import { styleText } from 'node:util';
import { accountRows } from '../support/account-rows.js';
import type { Worker } from '../support/crew.js';
import { fault, seconds } from '../support/figures.js';
import type { ReadersState } from './scene.js';

export function frame(state: ReadersState): string[] {
  const { plan, workers, writers, accounts, reads, transfers, wrongSums, mostReaders } = state;
  return [
    ...workers.map((worker) => workerRow(worker, writers.includes(worker))),
    '',
    ...accountRows(accounts),
    '',
    [
      `  sums ${reads}`,
      `transfers ${transfers}`,
      ...(plan.lock === 'none' ? [] : [`readers at a time ${mostReaders}`]),
      fault('wrong sums', wrongSums),
    ].join('  '),
    '',
  ];
}

function workerRow({ name, state, sinceMs }: Worker, isWriter: boolean): string {
  const forTime = seconds(performance.now() - sinceMs, 1);
  switch (state) {
    case 'holds':
      return `  ${name}   ${isWriter ? styleText('yellow', '■ writes, alone') : styleText('green', '● reads')}`;
    case 'waits':
      return `  ${name}   ○ waits to ${isWriter ? 'write' : 'read'} ${forTime}`;
    case 'transfers':
      return `  ${name}   ${isWriter ? '■ writes now and then' : '● reads'}`;
    case 'killed':
      return `  ${name}   ${styleText('red', `✗ killed ${forTime} ago`)}`;
    case 'starts':
    case 'paused':
    case 'rests':
      return `  ${name}   ${styleText('dim', isWriter ? '· between two transfers' : '· between two sums')}`;
  }
}
