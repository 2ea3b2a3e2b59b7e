// Acquire and release while two of five masters accept what is sent and never answer, beside the same with all five up.

import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from '../../test/support/redis-server.js';
import type { BenchmarkContext } from '../support/benchmark.js';
import type { Contender } from '../support/contenders.js';
import { interleaved } from '../support/interleaved.js';
import { formatRatio, median, pairedRatio, quantile } from '../support/statistics.js';
import { printTable } from '../support/table.js';
import { verdict } from '../support/verdict.js';
import { acquireAndRelease, operationMs } from './contenders.js';

const TARGET_RATIO = 1.5;
/** After which a master that does not answer is known to owe an answer: more than `nodeTimeout`. */
const KNOWN_AFTER_MS = 100;

const KINDS = ['holdfast', 'npm redlock'] as const;

/** One client with all five up, and another one with two that are silent. */
interface Pair {
  readonly up: Contender;
  readonly silent: Contender;
  /** How long it took the second one to acquire and release for the first time since they are silent, in milliseconds. */
  firstMs: number;
}

/** `spare` takes the place of two of the five masters, and falls silent. */
export async function silentMasters(
  { keyPrefix, isSmoke }: BenchmarkContext,
  five: readonly RedisServer[],
  spare: readonly [RedisServer, RedisServer],
): Promise<void> {
  const urls = five.map(({ url }) => url);
  const withSpare = [...spare, ...five.slice(spare.length)].map(({ url }) => url);
  const [rounds, perSlice] = isSmoke ? [3, 20] : [100, 50];
  const pairs = await Promise.all(
    KINDS.map(async (kind): Promise<Pair> => {
      const up = await acquireAndRelease(kind, urls);
      const silent = await acquireAndRelease(kind, withSpare);
      await silent.operation(`${keyPrefix}connected:${kind}`);
      return { up, silent, firstMs: 0 };
    }),
  );
  const contenders = pairs.flatMap(({ up, silent }) => [up, silent]);
  const key = (contender: Contender): string =>
    `${keyPrefix}silent:${contenders.indexOf(contender)}`;
  try {
    await Promise.all(spare.map((master) => master.pause()));
    for (const pair of pairs) {
      pair.firstMs = await operationMs(pair.silent, key(pair.silent));
      await sleep(KNOWN_AFTER_MS);
    }
    const slices = await interleaved(contenders, rounds, async (contender) => {
      const samplesMs: number[] = [];
      for (let i = 0; i < perSlice; i++)
        samplesMs.push(await operationMs(contender, key(contender)));
      return samplesMs;
    });
    report(pairs, slices);
  } finally {
    await Promise.all(spare.map((master) => master.kill()));
    await Promise.all(contenders.map((contender) => contender.close()));
  }
}

function report(pairs: readonly Pair[], slices: Map<Contender, number[][]>): void {
  const ratioOf = ({ up, silent }: Pair): ReturnType<typeof pairedRatio> =>
    pairedRatio(slices.get(silent)!.map(median), slices.get(up)!.map(median));
  const figures = (contender: Contender): string[] =>
    [0.5, 0.99].map((q) => (quantile(slices.get(contender)!.flat(), q) * 1_000).toFixed(1));
  console.log(
    '\nredlock: two of five masters accept what is sent and never answer, uncontended, one at a time',
  );
  printTable([
    ['', 'p50 µs', 'p99 µs', 'p50 x five up', 'the first one, ms'],
    ...pairs.flatMap((pair) => [
      [`${pair.up.name}, five up`, ...figures(pair.up), '', ''],
      [
        `${pair.silent.name}, two silent`,
        ...figures(pair.silent),
        formatRatio(ratioOf(pair)),
        pair.firstMs.toFixed(1),
      ],
    ]),
  ]);
  const ratio = ratioOf(pairs[0]!).median;
  verdict(`p50 ${ratio.toFixed(2)} x five up`, ratio <= TARGET_RATIO, `at most ${TARGET_RATIO}`);
}
