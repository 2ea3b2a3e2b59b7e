// Does a line of 5,000 cost the server more per call than one of 50? What it takes to join, to hand over and to leave,
// by the slow log of a Redis that logs everything.

import { Redis } from 'ioredis';
import { startRedis } from '../../test/support/redis-server.js';
import type { BenchmarkContext } from '../support/benchmark.js';
import { Crowd } from '../support/crowd.js';
import { interleaved } from '../support/interleaved.js';
import { LOG_EVERYTHING, scriptMicros } from '../support/script-times.js';
import { formatRatio, mean, median, pairedRatio } from '../support/statistics.js';
import { printTable } from '../support/table.js';
import { verdict } from '../support/verdict.js';

const FEW = 50;
const MANY = 5_000;
/** How many hand over, leave, and join again, in one slice. */
const PER_SLICE = 10;

const TARGET_RATIO = 2;

/** Microseconds per call. */
interface Slice {
  readonly join: number;
  readonly 'hand over': number;
  readonly leave: number;
}
const ACTIONS = ['join', 'hand over', 'leave'] as const satisfies (keyof Slice)[];

export async function crowd({ isSmoke }: BenchmarkContext): Promise<void> {
  console.log(
    `\nfair: a line of ${MANY.toLocaleString('en')}, all of one client, against one of ${FEW}`,
  );
  if (process.env['HOLDFAST_TEST_BACKEND'] === 'none') {
    console.log('  left out: it takes a Redis of its own, and none can be started here');
    return;
  }
  await using server = await startRedis({ args: LOG_EVERYTHING });
  const redis = new Redis(server.url);
  const few = new Crowd(server.url, 'few');
  const many = new Crowd(server.url, 'many');
  try {
    await few.join(FEW);
    await many.join(MANY);
    report(await interleaved([few, many], isSmoke ? 3 : 60, (crowd) => slice(redis, crowd)));
  } finally {
    await Promise.all([few.close(), many.close()]);
    redis.disconnect();
  }
}

async function slice(redis: Redis, crowd: Crowd): Promise<Slice> {
  const handOver = await scriptMicros(redis, 'handOver', () => crowd.handOver(PER_SLICE));
  const leave = await scriptMicros(redis, 'handOver', () => crowd.leave(PER_SLICE));
  const join = await scriptMicros(redis, 'join', () => crowd.join(2 * PER_SLICE));
  return { 'hand over': mean(handOver), leave: mean(leave), join: mean(join) };
}

function report(slices: Map<Crowd, Slice[]>): void {
  const [few, many] = [...slices.values()] as [Slice[], Slice[]];
  const ratios = new Map(
    ACTIONS.map((action) => [
      action,
      pairedRatio(
        many.map((slice) => slice[action]),
        few.map((slice) => slice[action]),
      ),
    ]),
  );
  printTable([
    ['server time per script call', `${FEW} in line µs`, `${MANY} in line µs`, `x ${FEW}`],
    ...ACTIONS.map((action) => [
      action,
      ...[few, many].map((slices) => median(slices.map((slice) => slice[action])).toFixed(1)),
      formatRatio(ratios.get(action)!),
    ]),
  ]);
  const worst = Math.max(...[...ratios.values()].map(({ median }) => median));
  verdict(
    `at worst ${worst.toFixed(2)} x ${FEW} in line`,
    worst <= TARGET_RATIO,
    `at most ${TARGET_RATIO}`,
  );
}
