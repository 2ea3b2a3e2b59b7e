// Pairs, acquire and release without contention, with 1, 16 and 256 in flight: beside the raw pair of commands (row 1), with a token, and
// on each client library.

import {
  atLeast,
  atMost,
  ratioToFloor,
  type Case,
  type Metric,
  type TargetResult,
} from '../report/case.js';
import type { Spread } from '../support/figures.js';
import { serverUsageOf } from '../support/machine.js';
import type { PairsOrder } from '../worker/messages.js';
import { Soloists } from './crew.js';
import {
  contender,
  inTurns,
  npmLocks,
  show,
  type Contender,
  type Row,
  type RowContext,
} from './row.js';

/** Java needs seconds to compile the code it runs. */
const SIZES = {
  smoke: { rounds: 1, sliceMs: 20, warmUpMs: 0, lanes: [1, 16] },
  quick: { rounds: 4, sliceMs: 50, warmUpMs: 100, lanes: [1, 256] },
  full: { rounds: 15, sliceMs: 250, warmUpMs: 2_000, lanes: [1, 16, 256] },
};

const CALLS = { acquire: 'acquire + release', withLock: 'withLock' } as const;

export const uncontended: Row = {
  name: 'uncontended',
  what: 'acquire and release without contention; 1, 16 and 256 in flight',
  async run(context) {
    using workers = new Soloists(
      [contender('raw'), ...npmLocks(context.effort), ...context.redisson].filter(
        ({ id, isTunedForWaiting }) => !isTunedForWaiting && id !== 'redisson-fair',
      ),
    );
    const cases: Case[] = [];
    for (const call of ['acquire', 'withLock'] as const) {
      for (const lanes of SIZES[context.effort].lanes) {
        const id = `${call}-${lanes}`;
        const title = `${CALLS[call]}, uncontended, ${lanes} in flight`;
        const pairs = { id, title, floor: 'raw', call, lanes };
        cases.push(show(context, await measurePairs(context, workers, pairs)));
      }
    }
    return { cases, targets: cases.flatMap(targetsOf) };
  },
};

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

// The cost of a token: a pair of a fenced lock beside one of a plain lock.

export const token: Row = {
  name: 'token',
  what: 'the cost of a fencing token: a fenced pair beside a plain one; 1, 16 and 256 in flight',
  async run(context) {
    using workers = new Soloists([contender('holdfast'), contender('holdfast-fenced')]);
    const cases: Case[] = [];
    for (const lanes of SIZES[context.effort].lanes) {
      const one = await measurePairs(context, workers, {
        id: `token-${lanes}`,
        title: `acquire + release of a fenced lock, uncontended, ${lanes} in flight`,
        floor: 'holdfast',
        call: 'acquire',
        lanes,
      });
      cases.push(show(context, one));
    }
    const ratio = ratioToFloor(cases[0]!, 'holdfast-fenced', 'p50');
    return { cases, targets: [atMost(1.1, 'fenced pair, p50 / plain pair', ratio)] };
  },
};

// The cost of a pair on each client library: holdfast on ioredis and on node-redis, each beside the raw pair of the same library.

const LIBRARIES = [
  { library: 'ioredis', floor: 'raw', ours: 'holdfast' },
  { library: 'node-redis', floor: 'raw-node-redis', ours: 'holdfast-node-redis' },
];

export const libraries: Row = {
  name: 'libraries',
  what: 'a pair on ioredis and on node-redis, each beside a raw pair of that library; 1, 16 and 256 in flight',
  async run(context) {
    // With HOLDFAST_LIBRARY=redis@6 there is no ioredis for holdfast.
    const measured = LIBRARIES.slice(process.env['HOLDFAST_LIBRARY']?.startsWith('redis') ? 1 : 0);
    using workers = new Soloists(
      measured.flatMap(({ floor, ours }) => [contender(floor), contender(ours)]),
    );
    const cases: Case[] = [];
    for (const lanes of SIZES[context.effort].lanes) {
      const id = `libraries-${lanes}`;
      const title = `acquire + release, uncontended, ${lanes} in flight`;
      const pairs = { id, title, floor: 'raw', call: 'acquire', lanes } as const;
      const all = await measurePairs(context, workers, pairs);
      for (const { library, floor, ours } of measured) {
        const one: Case = {
          ...all,
          id: `${id}-${library}`,
          title: `${title}, on ${library}`,
          floor,
          series: all.series.filter((series) => series.id === floor || series.id === ours),
        };
        cases.push(show(context, one));
      }
    }
    return { cases };
  },
};

// Slices of pairs, one contender after the other.

const P50: Metric = { key: 'p50', label: 'p50, µs', digits: 1, isRatio: true };
const P99: Metric = { key: 'p99', label: 'p99, µs', digits: 1 };
const RATE: Metric = { key: 'rate', label: 'pairs/s', digits: 0, isRatio: true };
const COSTS: readonly Metric[] = [
  { key: 'server', label: 'server µs', digits: 1 },
  { key: 'client', label: 'client µs', digits: 1 },
  { key: 'commands', label: 'commands', digits: 1 },
];

interface PairsCase {
  readonly id: string;
  readonly title: string;
  /** The id of the contender that the others are compared with. */
  readonly floor: string;
  readonly call: PairsOrder['call'];
  readonly lanes: number;
}

/** `prepare` runs before each slice, and is not measured. */
export async function measurePairs(
  context: RowContext,
  workers: Soloists,
  { id, title, floor, call, lanes }: PairsCase,
  prepare: (one: Contender, name: string) => Promise<unknown> = () => Promise.resolve(),
): Promise<Case> {
  const { url, redis, keyPrefix, effort } = context;
  const { rounds, sliceMs, warmUpMs } = SIZES[effort];
  const series = await inTurns(
    context,
    title,
    workers.contenders,
    rounds,
    async (one, round) => {
      const name = `${keyPrefix}pairs:${one.id}`;
      await prepare(one, name);
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
  // With one in flight the latency counts, with many the rate.
  const metrics = lanes === 1 ? [P50, P99, RATE, ...COSTS] : [RATE, P50, P99, ...COSTS];
  return { id, title, metrics, floor, series };
}
