// Row 3: the time from the release in one process until the next holder, in another process, is inside. Both are idle before.

import { setTimeout as sleep } from 'node:timers/promises';
import {
  atMost,
  ratioToFloor,
  valuesOf,
  type Case,
  type Metric,
  type TargetResult,
} from '../report/case.js';
import {
  contender,
  inTurns,
  show,
  waitingLocks,
  type Contender,
  type Row,
  type RowContext,
} from './row.js';
import { median, pairedRatio, quantile } from '../support/figures.js';
import type { WorkerProcess } from '../worker/worker-process.js';

const METRICS: readonly Metric[] = [
  { key: 'p50', label: 'p50, µs', digits: 0, isRatio: true },
  { key: 'p90', label: 'p90, µs', digits: 0 },
];

/** The longest time until a caller is fully waiting: subscribed, with its second query sent. */
const SETTLED_MS = 20;

const SIZES = {
  smoke: { rounds: 1, sliceMs: 1, hasWarmUp: false },
  quick: { rounds: 3, sliceMs: 150, hasWarmUp: true },
  full: { rounds: 20, sliceMs: 400, hasWarmUp: true },
};

interface Ends {
  readonly giver: WorkerProcess;
  readonly taker: WorkerProcess;
}

export const handOver: Row = {
  name: 'hand-over',
  what: 'from the release in one process to the next holder in another',
  async run(context) {
    const one = show(context, await measure(context));
    return { cases: [one], targets: targetsOf(one) };
  },
};

async function measure(context: RowContext): Promise<Case> {
  const { url, keyPrefix, effort, redisson } = context;
  const { rounds, sliceMs, hasWarmUp } = SIZES[effort];
  const contenders = [contender('publish'), ...waitingLocks(effort), ...redisson];
  const ends = new Map<Contender['runtime'], Ends>();
  for (const one of contenders) {
    if (!ends.has(one.runtime)) ends.set(one.runtime, { giver: one.start(), taker: one.start() });
  }
  let last = 0;
  try {
    const series = await inTurns(
      context,
      'hand-over between processes',
      contenders,
      rounds,
      async (one) => {
        const micros: number[] = [];
        const endMs = performance.now() + sliceMs;
        do {
          const name = `${keyPrefix}hand-over:${++last}`;
          micros.push(await handOverMicros(ends.get(one.runtime)!, one, url, name));
        } while (performance.now() < endMs);
        return { p50: median(micros), p90: quantile(micros, 0.9) };
      },
      hasWarmUp,
    );
    return {
      id: 'hand-over',
      title: 'from the release in one process until the next holder is inside in another',
      metrics: METRICS,
      floor: 'publish',
      series,
    };
  } finally {
    for (const { giver, taker } of ends.values()) {
      giver[Symbol.dispose]();
      taker[Symbol.dispose]();
    }
  }
}

/** From the release in one process until the other is inside. The name must never have been used before. */
export async function handOverMicros(
  { giver, taker }: Ends,
  { id, pollMs }: Contender,
  url: string,
  name: string,
): Promise<number> {
  const target = { peer: id, urls: [url], name };
  await giver.ask({ do: 'hold', ...target });
  await taker.ask({ do: 'wait', ...target });
  // A poller must not always be met at the same moment of its sleep.
  await sleep(SETTLED_MS + Math.random() * pollMs);
  const letGoMs = await giver.ask({ do: 'let go', name });
  const enteredMs = await taker.ask({ do: 'tell', name });
  return (enteredMs - letGoMs) * 1_000;
}

function targetsOf(one: Case): TargetResult[] {
  const p50 = (id: string): readonly number[] => valuesOf(one, id, 'p50');
  const others = one.series.filter(({ id }) => !id.startsWith('holdfast') && id !== one.floor);
  const best = others.reduce((fastest, other) =>
    median(p50(other.id)) < median(p50(fastest.id)) ? other : fastest,
  );
  return [
    atMost(1.5, 'fair hand-over, p50 / one PUBLISH', ratioToFloor(one, 'holdfast-fair', 'p50')),
    atMost(
      0.9,
      `release to the next section, p50 / ${best.label}`,
      pairedRatio(p50('holdfast'), p50(best.id)),
    ),
  ];
}
