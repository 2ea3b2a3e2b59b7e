// Acquire and release where nobody else wants the lock: how long one takes, and how many go through at once.

import type { Benchmark, BenchmarkContext } from './support/benchmark.js';
import {
  acquireAndRelease,
  bareLock,
  scriptsAlone,
  twoPings,
  withLock,
  type Contender,
} from './support/contenders.js';
import { interleaved } from './support/interleaved.js';
import { formatRatio, median, pairedRatio, quantile } from './support/statistics.js';
import { printTable } from './support/table.js';
import { verdict } from './support/verdict.js';

/** How many operations are under way at a time when throughput is measured, each on a key of its own. */
const IN_FLIGHT = 256;

const TARGET_LATENCY_RATIO = 1.05;
const TARGET_THROUGHPUT_RATIO = 0.9;

/** Who runs against whom; `subject` is the one that has targets. */
interface Field {
  readonly pings: Contender;
  readonly floor: Contender;
  readonly subject: Contender;
  readonly all: readonly Contender[];
}

export const uncontended: Benchmark = {
  name: 'uncontended',
  async run(context) {
    await compare('acquire() and release()', context, [acquireAndRelease, scriptsAlone]);
    // Last, with floors of its own: from the first AsyncLocalStorage.run() on, all promises of a Node.js before 24 are slower.
    await compare('withLock(), AsyncLocalStorage in use', context, [withLock]);
    return true;
  },
};

type Open = (url: string) => Promise<Contender>;

async function compare(
  title: string,
  { url, keyPrefix, isSmoke }: BenchmarkContext,
  open: readonly Open[],
): Promise<void> {
  const all = await Promise.all([twoPings, bareLock, ...open].map((contender) => contender(url)));
  const field: Field = { pings: all[0]!, floor: all[1]!, subject: all[2]!, all };
  try {
    console.log(`\n${title}: uncontended, one at a time`);
    await latency(field, keyPrefix, isSmoke ? 10 : 150);
    console.log(`\n${title}: uncontended, ${IN_FLIGHT} in flight on keys of their own`);
    await throughput(field, keyPrefix, isSmoke ? 6 : 80);
  } finally {
    await Promise.all(all.map((contender) => contender.close()));
  }
}

async function latency(field: Field, keyPrefix: string, rounds: number): Promise<void> {
  const perSlice = 200;
  const samplesMs = await interleaved(field.all, rounds, async (contender) => {
    const slice: number[] = [];
    for (let i = 0; i < perSlice; i++) {
      const startMs = performance.now();
      await contender.operation(`${keyPrefix}latency`);
      slice.push(performance.now() - startMs);
    }
    return slice;
  });
  const medians = (contender: Contender): number[] => samplesMs.get(contender)!.map(median);
  printTable([
    ['', 'p50 µs', 'p99 µs', 'x SET NX', 'x two PINGs'],
    ...field.all.map((contender) => [
      contender.name,
      micros(quantile(samplesMs.get(contender)!.flat(), 0.5)),
      micros(quantile(samplesMs.get(contender)!.flat(), 0.99)),
      formatRatio(pairedRatio(medians(contender), medians(field.floor))),
      formatRatio(pairedRatio(medians(contender), medians(field.pings))),
    ]),
  ]);
  const ratio = pairedRatio(medians(field.subject), medians(field.floor)).median;
  verdict(
    `latency ${ratio.toFixed(2)} x SET NX`,
    ratio <= TARGET_LATENCY_RATIO,
    `at most ${TARGET_LATENCY_RATIO}`,
  );
}

async function throughput(field: Field, keyPrefix: string, rounds: number): Promise<void> {
  const perLane = 8;
  const keys = Array.from({ length: IN_FLIGHT }, (_, lane) => `${keyPrefix}throughput:${lane}`);
  const results = await interleaved(field.all, rounds, async (contender) => {
    const startMs = performance.now();
    await Promise.all(keys.map((key) => repeat(contender, key, perLane)));
    return (IN_FLIGHT * perLane * 1_000) / (performance.now() - startMs);
  });
  const perSecond = (contender: Contender): number[] => results.get(contender)!;
  printTable([
    ['', 'ops/s', 'x SET NX', 'x two PINGs'],
    ...field.all.map((contender) => [
      contender.name,
      Math.round(median(perSecond(contender))).toLocaleString('en'),
      formatRatio(pairedRatio(perSecond(contender), perSecond(field.floor))),
      formatRatio(pairedRatio(perSecond(contender), perSecond(field.pings))),
    ]),
  ]);
  const ratio = pairedRatio(perSecond(field.subject), perSecond(field.floor)).median;
  verdict(
    `throughput ${ratio.toFixed(2)} x SET NX`,
    ratio >= TARGET_THROUGHPUT_RATIO,
    `at least ${TARGET_THROUGHPUT_RATIO}`,
  );
}

async function repeat(contender: Contender, key: string, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await contender.operation(key);
}

function micros(ms: number): string {
  return (ms * 1_000).toFixed(1);
}
