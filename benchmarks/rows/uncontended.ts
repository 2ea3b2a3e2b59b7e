// Row 1: take and release where nobody else wants the lock, with 1, 16 and 256 in flight.

import { Redis } from 'ioredis';
import { printCase, ratioToFloor, seriesOf, type Case, type Metric } from '../report/case.js';
import { atLeast, atMost, type TargetResult } from '../report/target.js';
import { interleaved } from '../support/interleaved.js';
import { serverUsageOf } from '../support/server-usage.js';
import type { Spread } from '../support/statistics.js';
import type { PairsOrder } from '../worker/messages.js';
import { contender, npmLocks } from './contenders.js';
import type { Row, RowContext } from './row.js';
import { Soloists } from './soloists.js';

const CALLS = { acquire: 'acquire + release', withLock: 'withLock' } as const;

const P50: Metric = { key: 'p50', label: 'p50, µs', digits: 1, isRatio: true };
const P99: Metric = { key: 'p99', label: 'p99, µs', digits: 1 };
const RATE: Metric = { key: 'rate', label: 'pairs/s', digits: 0, isRatio: true };
const COSTS: readonly Metric[] = [
  { key: 'server', label: 'server µs', digits: 1 },
  { key: 'client', label: 'client µs', digits: 1 },
  { key: 'commands', label: 'commands', digits: 1 },
];

/** Java takes seconds to compile what it runs. */
const SIZES = {
  smoke: { rounds: 1, sliceMs: 20, warmUpMs: 0, lanes: [1, 16] },
  quick: { rounds: 4, sliceMs: 50, warmUpMs: 150, lanes: [1, 16, 256] },
  full: { rounds: 15, sliceMs: 250, warmUpMs: 2_000, lanes: [1, 16, 256] },
};

export const uncontended: Row = {
  name: 'uncontended',
  what: 'take and release where nobody else wants the lock; 1, 16 and 256 in flight',
  async run(context) {
    const redis = new Redis(context.url);
    using workers = new Soloists(
      [contender('raw'), ...npmLocks(), ...context.redisson].filter(
        ({ id, isTunedForWaiting }) => !isTunedForWaiting && id !== 'redisson-fair',
      ),
    );
    try {
      const cases: Case[] = [];
      for (const call of ['acquire', 'withLock'] as const) {
        for (const lanes of SIZES[context.effort].lanes) {
          const one = await measure(context, redis, workers, call, lanes);
          context.progress.clear();
          printCase(one);
          cases.push(one);
        }
      }
      return { cases, targets: cases.flatMap(targetsOf) };
    } finally {
      redis.disconnect();
    }
  },
};

async function measure(
  { url, keyPrefix, effort, progress }: RowContext,
  redis: Redis,
  workers: Soloists,
  call: PairsOrder['call'],
  lanes: number,
): Promise<Case> {
  const title = `${CALLS[call]}, uncontended, ${lanes} in flight`;
  const { rounds, sliceMs, warmUpMs } = SIZES[effort];
  progress.begin(title);
  const results = await interleaved(
    workers.contenders,
    rounds,
    async (one, round) => {
      progress.step(`round ${round} of ${rounds}, ${one.label}`);
      const name = `${keyPrefix}uncontended:${one.id}`;
      const order = { do: 'pairs', peer: one.id, urls: [url], call, name, lanes } as const;
      const { result, used } = await serverUsageOf(redis, () =>
        workers.of(one).ask({ ...order, durationMs: round === 0 ? warmUpMs : sliceMs }),
      );
      return {
        p50: result.p50Micros,
        p99: result.p99Micros,
        rate: (result.count * 1_000) / result.durationMs,
        server: used.cpuMicros / result.count,
        client: result.cpuMicros / result.count,
        commands: used.commands / result.count,
      };
    },
    warmUpMs > 0,
  );
  // One at a time the latency is what counts, many at a time the rate.
  const metrics = lanes === 1 ? [P50, P99, RATE, ...COSTS] : [RATE, P50, P99, ...COSTS];
  return { id: `${call}-${lanes}`, title, metrics, floor: 'raw', series: seriesOf(results) };
}

function targetsOf(one: Case): TargetResult[] {
  const ratio = (key: string): Spread => ratioToFloor(one, 'holdfast', key);
  // Before Node.js 24 an AsyncLocalStorage in use slows every promise.
  const hasCheapStorage = Number(process.versions.node.split('.')[0]) >= 24;
  switch (one.id) {
    case 'acquire-1':
      return [atMost(1.12, 'uncontended pair, p50 / raw pair', ratio('p50'))];
    case 'withLock-1':
      return [atMost(1.15, 'uncontended withLock, p50 / raw pair', ratio('p50'))];
    case 'acquire-256':
      return [atLeast(1.5, '256 in flight, rate / raw pair', ratio('rate'))];
    case 'withLock-256':
      return [
        atLeast(
          hasCheapStorage ? 1.3 : 1,
          '256 in flight, withLock, rate / raw pair',
          ratio('rate'),
        ),
      ];
    default:
      return [];
  }
}
