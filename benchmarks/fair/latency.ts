// How long after the release in one process does the next holder, in another process, go on? The floor is what no lock
// on Redis with waiters that are told can get below: one script that publishes one message to a subscriber.

import type { BenchmarkContext } from '../support/benchmark.js';
import { interleaved } from '../support/interleaved.js';
import type { Answer, Order, Way } from '../support/relay-messages.js';
import { formatRatio, median, pairedRatio, quantile } from '../support/statistics.js';
import { printTable } from '../support/table.js';
import { verdict } from '../support/verdict.js';
import { WorkerProcess } from '../support/worker-process.js';

const TARGET_RATIO = 1.3;

const NAMES: Record<Way, string> = {
  publish: 'EVALSHA with one PUBLISH',
  scripts: "the fair lock's scripts alone",
  reentrant: 'holdfast, reentrant lock',
  fair: 'holdfast, fair lock',
};
const WAYS: readonly Way[] = ['publish', 'scripts', 'reentrant', 'fair'];

type Worker = WorkerProcess<Order, Answer>;

export async function latency({ url, keyPrefix, isSmoke }: BenchmarkContext): Promise<void> {
  using giver: Worker = await WorkerProcess.start('relay-worker.ts', url);
  using taker: Worker = await WorkerProcess.start('relay-worker.ts', url);
  const [rounds, perSlice] = isSmoke ? [5, 20] : [100, 20];
  const slices = await interleaved(WAYS, rounds, async (way) => {
    const micros: number[] = [];
    for (let i = 0; i < perSlice; i++) {
      micros.push(await handOverMicros(giver, taker, way, `${keyPrefix}relay:${way}`));
    }
    return micros;
  });
  report(slices);
}

async function handOverMicros(
  giver: Worker,
  taker: Worker,
  way: Way,
  name: string,
): Promise<number> {
  await giver.ask({ do: 'hold', way, name });
  await taker.ask({ do: 'wait', way, name });
  const letGoAtMs = (await giver.ask({ do: 'let go', way, name })) as number;
  const hadAtMs = (await taker.ask({ do: 'tell' })) as number;
  return (hadAtMs - letGoAtMs) * 1_000;
}

function report(slices: Map<Way, number[][]>): void {
  const ratio = (way: Way): ReturnType<typeof pairedRatio> =>
    pairedRatio(slices.get(way)!.map(median), slices.get('publish')!.map(median));
  console.log('\nfair: hand-over from one process to another, from the release to being inside');
  printTable([
    ['', 'p50 µs', 'p99 µs', 'p50 x PUBLISH'],
    ...WAYS.map((way) => [
      NAMES[way],
      ...[0.5, 0.99].map((q) => quantile(slices.get(way)!.flat(), q).toFixed(0)),
      formatRatio(ratio(way)),
    ]),
  ]);
  const fair = ratio('fair').median;
  verdict(`p50 ${fair.toFixed(2)} x one PUBLISH`, fair <= TARGET_RATIO, `at most ${TARGET_RATIO}`);
}
