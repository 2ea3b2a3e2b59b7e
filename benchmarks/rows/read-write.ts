// A read-write lock, 95 % of whose callers only read, beside a lock that lets in one at a time: what does it gain, how long do those
// wait who write, and is there ever anybody beside them?

import { atLeast, valuesOf, type Metric } from '../report/case.js';
import { pairedRatio, spread } from '../support/figures.js';
import { contender, type Row } from './row.js';
import { measureSideBySide } from './side-by-side.js';

/** 5 % of the calls. */
const WRITE_EVERY = 20;

const METRICS: readonly Metric[] = [
  { key: 'stays', label: 'acquisitions/s', digits: 0 },
  { key: 'jain', label: 'Jain', digits: 3 },
  { key: 'p50', label: 'wait p50, ms', digits: 1 },
  { key: 'p99', label: 'p99, ms', digits: 1 },
  { key: 'longest', label: 'longest, ms', digits: 0, summary: 'max' },
  { key: 'longestWrite', label: 'longest to write, ms', digits: 0, summary: 'max' },
  { key: 'scripts', label: 'scripts', digits: 2 },
  { key: 'commands', label: 'commands', digits: 1 },
  { key: 'violations', label: 'violations', digits: 0, summary: 'sum' },
  { key: 'stuck', label: 'stuck', digits: 0, summary: 'sum' },
];

const OURS = 'holdfast-read-write';

export const readWrite: Row = {
  name: 'read-write',
  what: '95 % of many callers only read, beside a plain lock',
  async run(context) {
    const { one, violations } = await measureSideBySide(context, {
      id: 'read-write',
      what: 'a read-write lock, 95 % reads',
      contenders: [contender(OURS), contender('holdfast'), ...context.redissonReadWrite],
      metrics: METRICS,
      writeEvery: WRITE_EVERY,
    });
    const targets = [
      atLeast(
        1,
        'read-write, 95 % reads, acquisitions / a plain lock',
        pairedRatio(valuesOf(one, OURS, 'stays'), valuesOf(one, 'holdfast', 'stays')),
      ),
      atLeast(0.99, 'read-write, 95 % reads, Jain', spread(valuesOf(one, OURS, 'jain'))),
    ];
    return { cases: [one], targets, violations };
  },
};
