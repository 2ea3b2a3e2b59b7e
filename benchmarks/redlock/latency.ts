// Acquire and release on five masters where nobody else wants the lock, one at a time.

import type { BenchmarkContext } from '../support/benchmark.js';
import type { Contender } from '../support/contenders.js';
import { interleaved } from '../support/interleaved.js';
import { formatRatio, median, pairedRatio, quantile } from '../support/statistics.js';
import { printTable } from '../support/table.js';
import { verdict } from '../support/verdict.js';
import { acquireAndRelease, barePairs, inside, operationMs } from './contenders.js';

const TARGET_RATIO = 1.15;

export async function latency(
  context: BenchmarkContext,
  masters: readonly string[],
): Promise<void> {
  const ratio = await compare('acquire() and release()', context, [
    await barePairs(masters),
    await acquireAndRelease('holdfast', masters),
    await acquireAndRelease('npm redlock', masters),
  ]);
  verdict(
    `p50 ${ratio.toFixed(2)} x the slowest of five pairs`,
    ratio <= TARGET_RATIO,
    `at most ${TARGET_RATIO}`,
  );
  // Last, with a floor of its own: from the first AsyncLocalStorage.run() on, all promises of a Node.js before 24 are slower.
  await compare('withLock(), AsyncLocalStorage in use', context, [
    await barePairs(masters),
    await inside('holdfast', masters),
    await inside('npm redlock', masters),
  ]);
}

/** The first is the floor, the second is holdfast; returns the ratio of these two. */
async function compare(
  title: string,
  { keyPrefix, isSmoke }: BenchmarkContext,
  contenders: readonly [Contender, Contender, ...Contender[]],
): Promise<number> {
  const [rounds, perSlice] = isSmoke ? [3, 20] : [100, 100];
  try {
    const slices = await interleaved(contenders, rounds, async (contender) => {
      // A key each: a Redlock is released when most masters say so, and what others still have to do is on its way.
      const key = `${keyPrefix}latency:${contenders.indexOf(contender)}`;
      const samplesMs: number[] = [];
      for (let i = 0; i < perSlice; i++) samplesMs.push(await operationMs(contender, key));
      return samplesMs;
    });
    console.log(`\nredlock: ${title} on five masters, uncontended, one at a time`);
    return report(contenders, slices);
  } finally {
    await Promise.all(contenders.map((contender) => contender.close()));
  }
}

function report(
  contenders: readonly [Contender, Contender, ...Contender[]],
  slices: Map<Contender, number[][]>,
): number {
  const [floor, subject] = contenders;
  const ratioOf = (contender: Contender): ReturnType<typeof pairedRatio> =>
    pairedRatio(slices.get(contender)!.map(median), slices.get(floor)!.map(median));
  printTable([
    ['', 'p50 µs', 'p99 µs', 'p50 x the floor'],
    ...contenders.map((contender) => [
      contender.name,
      ...[0.5, 0.99].map((q) => (quantile(slices.get(contender)!.flat(), q) * 1_000).toFixed(1)),
      formatRatio(ratioOf(contender)),
    ]),
  ]);
  return ratioOf(subject).median;
}
