// Who reads and who writes, in one line of text.

import type { Worker } from '../support/crew.js';
import type { ReadersState } from './scene.js';

export function summary(state: ReadersState): string {
  const { plan, workers, reads, transfers, wrongSums, mostReaders } = state;
  const names = (which: Worker['state']): string =>
    workers
      .filter((worker) => worker.state === which)
      .map(({ name }) => name)
      .join(', ') || 'nobody';
  return [
    ...(plan.lock === 'none'
      ? []
      : [
          `inside: ${names('holds')}; waiting: ${names('waits')}`,
          `readers at a time: ${mostReaders}`,
        ]),
    `${transfers} transfers, ${reads} sums, ${wrongSums} wrong`,
  ].join(' | ');
}
