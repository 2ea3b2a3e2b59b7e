// Slices of pairs, take and release where nobody else wants the lock, by one contender after the other.

import type { Case, Metric } from '../report/case.js';
import { inTurns, type RowContext } from './row.js';
import { serverUsageOf } from '../support/machine.js';
import type { PairsOrder } from '../worker/messages.js';
import type { Soloists } from './crew.js';

const P50: Metric = { key: 'p50', label: 'p50, µs', digits: 1, isRatio: true };
const P99: Metric = { key: 'p99', label: 'p99, µs', digits: 1 };
const RATE: Metric = { key: 'rate', label: 'pairs/s', digits: 0, isRatio: true };
const COSTS: readonly Metric[] = [
  { key: 'server', label: 'server µs', digits: 1 },
  { key: 'client', label: 'client µs', digits: 1 },
  { key: 'commands', label: 'commands', digits: 1 },
];

/** Java takes seconds to compile what it runs. */
export const SIZES = {
  smoke: { rounds: 1, sliceMs: 20, warmUpMs: 0, lanes: [1, 16] },
  quick: { rounds: 4, sliceMs: 50, warmUpMs: 100, lanes: [1, 256] },
  full: { rounds: 15, sliceMs: 250, warmUpMs: 2_000, lanes: [1, 16, 256] },
};

export interface PairsCase {
  readonly id: string;
  readonly title: string;
  /** The id of the contender that the others are compared with. */
  readonly floor: string;
  readonly call: PairsOrder['call'];
  readonly lanes: number;
}

export async function measurePairs(
  context: RowContext,
  workers: Soloists,
  { id, title, floor, call, lanes }: PairsCase,
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
  return { id, title, metrics, floor, series };
}
