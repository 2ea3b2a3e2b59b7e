// Locks that let several callers in at the same time, wanted by callers of several processes: how fast and how evenly do they get in, how
// long are the waits, what does it cost the server, and is ever anybody inside who must not be?

import { atLeast, valuesOf, type Case, type Metric } from '../report/case.js';
import { pairedRatio, spread, sum } from '../support/figures.js';
import { Crew } from './crew.js';
import {
  contender,
  inTurns,
  semaphores,
  show,
  type Contender,
  type Row,
  type RowContext,
} from './row.js';

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

const PERMITS = 16;

export const semaphore: Row = {
  name: 'semaphore',
  what: `a contended semaphore of ${PERMITS} permits, beside redis-semaphore's`,
  async run(context) {
    const { one, violations } = await measureSideBySide(context, {
      id: 'semaphore',
      what: `${PERMITS} permits`,
      contenders: semaphores(context.effort),
      metrics: METRICS.filter(({ key }) => key !== 'longestWrite'),
      permits: PERMITS,
    });
    const jain = spread(valuesOf(one, 'holdfast-semaphore', 'jain'));
    return { cases: [one], targets: [atLeast(0.99, 'semaphore, Jain', jain)], violations };
  },
};

// A read-write lock, with 95 % reads, beside a lock that lets in one caller at a time.

/** 5 % of the calls. */
const WRITE_EVERY = 20;

export const readWrite: Row = {
  name: 'read-write',
  what: 'a read-write lock with 95 % reads, beside a plain lock',
  async run(context) {
    const { one, violations } = await measureSideBySide(context, {
      id: 'read-write',
      what: 'a read-write lock, 95 % reads',
      contenders: [
        contender('holdfast-read-write'),
        contender('holdfast'),
        ...context.redissonReadWrite,
      ],
      metrics: METRICS,
      writeEvery: WRITE_EVERY,
    });
    const targets = [
      atLeast(
        1,
        'read-write, 95 % reads, acquisitions / a plain lock',
        pairedRatio(
          valuesOf(one, 'holdfast-read-write', 'stays'),
          valuesOf(one, 'holdfast', 'stays'),
        ),
      ),
      atLeast(
        0.99,
        'read-write, 95 % reads, Jain',
        spread(valuesOf(one, 'holdfast-read-write', 'jain')),
      ),
    ];
    return { cases: [one], targets, violations };
  },
};

// One such lock, contender by contender.

const SIZES = {
  smoke: { rounds: 1, sliceMs: 100, processes: 2, callers: 12 },
  quick: { rounds: 2, sliceMs: 400, processes: 2, callers: 16 },
  full: { rounds: 5, sliceMs: 1_500, processes: 4, callers: 16 },
};

/** Few callers write, so it takes a while until one overlaps with a writer. */
const CONTROL_MS = 500;

interface SideBySide {
  /** The name of the chart. */
  readonly id: string;
  readonly what: string;
  readonly contenders: readonly Contender[];
  readonly metrics: readonly Metric[];
  /** Of a semaphore. */
  readonly permits?: number;
  /** Of a read-write lock: a caller writes every n-th time. */
  readonly writeEvery?: number;
}

/** The case, which is printed, and the events in it that must never happen. */
async function measureSideBySide(
  context: RowContext,
  { id, what, contenders, metrics, permits, writeEvery }: SideBySide,
): Promise<{ one: Case; violations: string[] }> {
  const { url, redis, keyPrefix, effort } = context;
  const { rounds, sliceMs, processes, callers } = SIZES[effort];
  const title = `${what}, ${processes} x ${callers} callers`;
  using crew = new Crew(processes);
  let slice = 0;
  const run = async (one: Contender, durationMs: number): Promise<Record<string, number>> => {
    const name = `${keyPrefix}${id}:${++slice}`;
    const mix = writeEvery === undefined ? {} : { writeEvery };
    const options = { name, counter: redis, counterUrl: url, durationMs, ...mix };
    return await crew.figuresOf(one, [url], callers, options, permits);
  };
  const series = await inTurns(context, title, contenders, rounds, (one, round) =>
    run(one, round === 0 ? sliceMs / 4 : sliceMs),
  );
  const { violations: control = 0 } = await run(
    contender('nothing'),
    Math.max(sliceMs, CONTROL_MS),
  );
  const notes = [`violations without any lock: ${control}`];
  const one = show(context, { id, title, metrics, series, notes });
  const violations = violationsOf(one);
  if (control === 0) violations.push(`${title}: the counter does not see violations`);
  return { one, violations };
}

function violationsOf(one: Case): string[] {
  return one.series
    .filter(({ id }) => id.startsWith('holdfast'))
    .map(({ id }) => ({ id, count: sum(valuesOf(one, id, 'violations')) }))
    .filter(({ count }) => count !== 0)
    .map(({ id, count }) => `${one.title}: ${id} let in a caller too many ${count} times`);
}
