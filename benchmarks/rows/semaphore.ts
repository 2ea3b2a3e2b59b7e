// Permits: many callers of several processes want one of 16. How fast and how evenly do they get them, how long does one wait, what
// does the server have to do for it, and are there ever more inside than there are permits?

import { atLeast, valuesOf, type Metric } from '../report/case.js';
import { spread } from '../support/figures.js';
import { semaphores, type Row } from './row.js';
import { measureSideBySide } from './side-by-side.js';

const PERMITS = 16;

const METRICS: readonly Metric[] = [
  { key: 'stays', label: 'acquisitions/s', digits: 0 },
  { key: 'jain', label: 'Jain', digits: 3 },
  { key: 'p50', label: 'wait p50, ms', digits: 1 },
  { key: 'p99', label: 'p99, ms', digits: 1 },
  { key: 'longest', label: 'longest, ms', digits: 0, summary: 'max' },
  { key: 'scripts', label: 'scripts', digits: 2 },
  { key: 'commands', label: 'commands', digits: 1 },
  { key: 'violations', label: 'violations', digits: 0, summary: 'sum' },
  { key: 'stuck', label: 'stuck', digits: 0, summary: 'sum' },
];

const OURS = 'holdfast-semaphore';

export const semaphore: Row = {
  name: 'semaphore',
  what: `a semaphore of ${PERMITS} permits, which many want, beside redis-semaphore's`,
  async run(context) {
    const { one, violations } = await measureSideBySide(context, {
      id: 'semaphore',
      what: `${PERMITS} permits`,
      contenders: semaphores(context.effort),
      metrics: METRICS,
      permits: PERMITS,
    });
    const jain = spread(valuesOf(one, OURS, 'jain'));
    return { cases: [one], targets: [atLeast(0.99, 'semaphore, Jain', jain)], violations };
  },
};
