// Many want one Redlock on five masters: how often does it change hands, how long does one wait, and is there ever more
// than one inside?

import type { BenchmarkContext } from '../support/benchmark.js';
import { HandOverCrew } from '../support/hand-over-crew.js';
import type { Guard, Result } from '../support/hand-over-messages.js';
import { interleaved } from '../support/interleaved.js';
import { formatRatio, mean, pairedRatio, quantile } from '../support/statistics.js';
import { printTable } from '../support/table.js';

const PROCESSES = 4;
const WAITERS = 8;

const NAMES = {
  redlock: 'holdfast',
  'npm redlock': 'npm redlock, retries by its defaults',
} satisfies Partial<Record<Guard, string>>;

type Contender = keyof typeof NAMES;

const CONTENDERS: readonly Contender[] = ['redlock', 'npm redlock'];

/** Prints the table; false when two were inside at a time. */
export async function contention(
  { url, keyPrefix, isSmoke }: BenchmarkContext,
  masters: readonly string[],
): Promise<boolean> {
  using crew = await HandOverCrew.start(PROCESSES, url, keyPrefix);
  const [rounds, durationMs] = isSmoke ? [1, 2_000] : [5, 4_000];
  const work = (guard: Guard): Promise<Result> =>
    crew.work({ guard, masters, waiters: WAITERS, until: { durationMs } });
  const control = await work('nothing');
  const slices = await interleaved(CONTENDERS, rounds, work);
  report(slices, durationMs);
  console.log(`  the violation counter without any lock: ${control.violations}`);
  return isSound(slices, control);
}

function report(slices: Map<Contender, Result[]>, durationMs: number): void {
  const perSecond = (contender: Contender): number[] =>
    slices.get(contender)!.map((slice) => acquisitionsPerSecond(slice, durationMs));
  console.log(
    `\nredlock: one lock on five masters, ${PROCESSES} processes x ${WAITERS} contenders`,
  );
  printTable([
    ['', 'acquisitions/s', 'x npm redlock', 'wait p50 ms', 'p99 ms', 'longest ms', 'violations'],
    ...CONTENDERS.map((contender) => {
      const results = slices.get(contender)!;
      const waitedMs = results
        .flatMap(({ stays }) => stays.map(({ askedMs, enteredMs }) => enteredMs - askedMs))
        .concat(results.flatMap(({ inVainMs }) => inVainMs));
      return [
        NAMES[contender],
        mean(perSecond(contender)).toFixed(1),
        formatRatio(pairedRatio(perSecond(contender), perSecond('npm redlock'))),
        ...[0.5, 0.99, 1].map((q) => quantile(waitedMs, q).toFixed(1)),
        String(violations(results)),
      ];
    }),
  ]);
}

/** While all of them asked: when the time is over, some retries of npm's redlock are still under way. */
function acquisitionsPerSecond({ stays }: Result, durationMs: number): number {
  const startMs = Math.min(...stays.map(({ askedMs }) => askedMs));
  const inTime = stays.filter(({ enteredMs }) => enteredMs < startMs + durationMs);
  return (inTime.length * 1_000) / durationMs;
}

function violations(results: readonly Result[]): number {
  return results.reduce((sum, result) => sum + result.violations, 0);
}

/** Never two inside under holdfast, and a counter that would have seen it. */
function isSound(slices: Map<Contender, Result[]>, control: Result): boolean {
  const found = violations(slices.get('redlock')!);
  if (found > 0) console.error(`  VIOLATED: ${found} times somebody else was inside`);
  if (control.violations === 0) console.error('  the violation counter does not count');
  return found === 0 && control.violations > 0;
}
