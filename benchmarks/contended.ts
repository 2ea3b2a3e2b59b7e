// Hand-over: processes with several waiters each want one lock. How fast does it go from one to the next, how long
// does one wait, and is there ever more than one inside?

import type { Benchmark } from './support/benchmark.js';
import { HandOverCrew } from './support/hand-over-crew.js';
import type { Guard, Result } from './support/hand-over-messages.js';
import { interleaved } from './support/interleaved.js';
import { formatRatio, median, pairedRatio, quantile } from './support/statistics.js';
import { handOversPerSecond, handOverTimes } from './support/stays.js';
import { printTable } from './support/table.js';

const PROCESSES = 4;
const WAITERS = 8;

const NAMES = {
  token: 'BLPOP + RPUSH of a token',
  reentrant: 'holdfast acquire + release',
} satisfies Partial<Record<Guard, string>>;

type Contender = keyof typeof NAMES;

export const contended: Benchmark = {
  name: 'contended',
  async run({ url, keyPrefix, isSmoke }) {
    using crew = await HandOverCrew.start(PROCESSES, url, keyPrefix);
    const until = { durationMs: isSmoke ? 300 : 1_000 };
    const work = (guard: Guard): Promise<Result> => crew.work({ guard, waiters: WAITERS, until });
    const control = await work('nothing');
    const contenders: Contender[] = ['token', 'reentrant'];
    const results = await interleaved<Contender, Result>(contenders, isSmoke ? 3 : 12, work);
    return report(results, control);
  },
};

function report(results: Map<Contender, Result[]>, control: Result): boolean {
  const perSecond = (guard: Contender): number[] =>
    results.get(guard)!.map(({ stays }) => handOversPerSecond(stays));
  const rows = [...results].map(([guard, slices]) => {
    const handOverMs = slices.flatMap(({ stays }) => handOverTimes(stays));
    const waitedMs = slices.flatMap(({ stays }) =>
      stays.map(({ askedMs, enteredMs }) => enteredMs - askedMs),
    );
    return [
      NAMES[guard],
      Math.round(median(perSecond(guard))).toLocaleString('en'),
      formatRatio(pairedRatio(perSecond(guard), perSecond('token'))),
      ...[0.5, 0.99].map((q) => (quantile(handOverMs, q) * 1_000).toFixed(0)),
      ...[0.5, 0.99, 1].map((q) => quantile(waitedMs, q).toFixed(1)),
      String(slices.reduce((sum, { violations }) => sum + violations, 0)),
    ];
  });
  console.log(`\nhand-over: one lock, ${PROCESSES} processes x ${WAITERS} waiters`);
  printTable([
    [
      '',
      'hand-overs/s',
      'x token',
      'p50 µs',
      'p99 µs',
      'wait p50 ms',
      'p99 ms',
      'longest ms',
      'violations',
    ],
    ...rows,
  ]);
  console.log(`  the violation counter without any lock: ${control.violations}`);
  return isSound(results, control);
}

/** Never two inside, and a counter that would have seen it. */
function isSound(results: Map<Contender, Result[]>, control: Result): boolean {
  const violations = results.get('reentrant')!.reduce((sum, slice) => sum + slice.violations, 0);
  if (violations > 0) console.error(`  VIOLATED: ${violations} times somebody else was inside`);
  if (control.violations === 0) console.error('  the violation counter does not count');
  return violations === 0 && control.violations > 0;
}
