// Row 7: one lock on five independent masters: acquire and release, and 4 x 8 callers that want it.

import { startMasters } from '../../test/support/redis-topologies.js';
import { valuesOf, type Case, type Metric } from '../report/case.js';
import {
  contender,
  inTurns,
  npmLocks,
  show,
  waitingLocks,
  type Contender,
  type Row,
  type RowContext,
} from './row.js';
import { sum } from '../support/figures.js';
import { METRICS } from './contended.js';
import { Crew, Soloists } from './crew.js';

const PAIR: readonly Metric[] = [
  { key: 'p50', label: 'p50, µs', digits: 0, isRatio: true },
  { key: 'p99', label: 'p99, µs', digits: 0 },
  { key: 'client', label: 'client µs', digits: 0 },
];

const SIZES = {
  smoke: { rounds: 1, pairMs: 20, sliceMs: 100, processes: 1 },
  quick: { rounds: 2, pairMs: 100, sliceMs: 1_000, processes: 2 },
  full: { rounds: 15, pairMs: 300, sliceMs: 4_000, processes: 4 },
};

/** A slice of seconds, and fewer of them. */
const CONTENDED_ROUNDS = { smoke: 1, quick: 1, full: 3 };

export const redlock: Row = {
  name: 'redlock',
  what: 'one lock on five masters',
  async run(context) {
    if (process.env['HOLDFAST_TEST_BACKEND'] === 'none') {
      console.log(
        '\nredlock: left out, since it needs masters of its own, and none can be started here',
      );
      return { cases: [] };
    }
    await using masters = await startMasters(5);
    const urls = masters.map(({ url }) => url);
    const hasRedlock = ({ id }: Contender): boolean =>
      id !== 'holdfast-fair' && !id.startsWith('node-redisson');
    const cases = [
      await pairs(context, npmLocks(context.effort).filter(hasRedlock), urls),
      await crowds(context, waitingLocks(context.effort).filter(hasRedlock), urls),
    ];
    const found = sum(valuesOf(cases[1]!, 'holdfast', 'violations'));
    const violations = [`five masters: holdfast let in a second caller ${found} times`];
    return { cases, violations: found === 0 ? [] : violations };
  },
};

async function pairs(
  context: RowContext,
  contenders: readonly Contender[],
  urls: readonly string[],
): Promise<Case> {
  const { rounds, pairMs } = SIZES[context.effort];
  const title = 'five masters, acquire + release, uncontended, one at a time';
  const floor = contender('raw');
  using workers = new Soloists(
    [floor, ...contenders].filter(({ isTunedForWaiting }) => !isTunedForWaiting),
  );
  const series = await inTurns(context, title, workers.contenders, rounds, async (one) => {
    const name = `${context.keyPrefix}redlock:${one.id}`;
    const order = { do: 'pairs', peer: one.id, urls, call: 'acquire', name } as const;
    const result = await workers.of(one).ask({ ...order, lanes: 1, durationMs: pairMs });
    const { p50Micros, p99Micros, cpuMicros, count } = result;
    return { p50: p50Micros, p99: p99Micros, client: cpuMicros / count };
  });
  return show(context, { id: 'redlock-1', title, metrics: PAIR, floor: floor.id, series });
}

async function crowds(
  context: RowContext,
  contenders: readonly Contender[],
  urls: readonly string[],
): Promise<Case> {
  const { url, redis, keyPrefix, effort } = context;
  const { sliceMs, processes } = SIZES[effort];
  const title = `five masters, one lock, ${processes} x 8 callers`;
  using crew = new Crew(processes);
  let slice = 0;
  const rounds = CONTENDED_ROUNDS[effort];
  const series = await inTurns(context, title, contenders, rounds, async (one, round) => {
    const name = `${keyPrefix}redlock:contended:${++slice}`;
    const durationMs = round === 0 ? sliceMs / 4 : sliceMs;
    const options = { name, counter: redis, counterUrl: url, durationMs };
    return await crew.figuresOf(one, urls, 8, options);
  });
  // The commands that were counted are those of the counter's server.
  const metrics = METRICS.filter(({ key }) => key !== 'scripts' && key !== 'commands');
  return show(context, { id: 'redlock-4x8', title, metrics, series });
}
