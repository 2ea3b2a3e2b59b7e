// The masters as they come and go, and what that means to the workers.

import { styleText } from 'node:util';
import { monotonicMs } from '../support/clock.js';
import type { Worker } from '../support/crew.js';
import { fault, seconds } from '../support/figures.js';
import type { Master } from './master.js';
import type { RedlockState } from './scene.js';

export function frame(state: RedlockState): string[] {
  const { masters, workers, transfers, lostCents, refusals } = state;
  return [
    ...masters.map(masterRow),
    '',
    `  ${workers.map(workerCell).join('   ')}`,
    '',
    `  transfers ${transfers}  refusals ${refusals.count}  ${fault('cents lost', lostCents)}`,
    '',
  ];
}

function masterRow({ name, address, state, sinceMs, answer }: Master): string {
  const forTime = seconds(monotonicMs() - sinceMs, 1);
  const place = `${name}   ${address}   `;
  switch (state) {
    case 'up':
      return `  ${styleText('green', '●')} ${place}up`;
    case 'killed':
      return `  ${styleText('red', `✗ ${place}killed ${forTime} ago`)}`;
    case 'back':
      return answer?.answer === 'guarded'
        ? `  ${styleText('yellow', `○ ${place}back, empty: votes in ${seconds(answer.votesInMs, 1)}`)}`
        : `  ${styleText('green', '●')} ${place}up again for ${forTime}`;
  }
}

function workerCell({ name, state }: Worker): string {
  switch (state) {
    case 'holds':
      return styleText('green', `● ${name}`);
    case 'waits':
      return `○ ${name}`;
    case 'starts':
    case 'transfers':
    case 'rests':
    case 'paused':
    case 'killed':
      return styleText('dim', `· ${name}`);
  }
}
