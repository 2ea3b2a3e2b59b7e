// Row 6: does the length of a fair lock's line matter? Hand-overs per second while each caller that leaves joins again.

import { setTimeout as sleep } from 'node:timers/promises';
import { curvesOf, type Case } from '../report/case.js';
import type { Growth } from '../report/charts.js';
import { Holdfast } from '../peers/holdfast.js';
import { contender, inTurns, show, type Contender, type Row, type RowContext } from './row.js';
import { monotonicMs } from '../support/figures.js';

const SIZES = {
  smoke: { rounds: 1, windowMs: 100, lengths: [100], longestOfRedisson: 0 },
  quick: { rounds: 1, windowMs: 700, lengths: [10, 1_000], longestOfRedisson: 0 },
  full: {
    rounds: 3,
    windowMs: 3_000,
    lengths: [10, 100, 1_000, 10_000],
    longestOfRedisson: 1_000,
  },
};

/** The length of the line of this name. */
type Lengths = (name: string) => Promise<number>;

/** The time limit for a line to form. The time grows with the square of the length for Redisson. */
const FORMED_WITHIN_MS = 120_000;

export const line: Row = {
  name: 'line',
  what: 'hand-overs of a fair lock, with 10 to 10,000 in line',
  async run(context) {
    const { effort, redis, redisson } = context;
    const client = new Holdfast({ redis: context.url });
    const lengthsOf =
      ({ id }: Contender): Lengths =>
      (name) =>
        id === 'holdfast-fair'
          ? client.getFairLock(name).getQueueLength()
          : redis.llen(`redisson_lock_queue:{${name}}`);
    const { rounds, lengths, longestOfRedisson } = SIZES[effort];
    const javas = redisson.filter(({ id }) => id === 'redisson-fair');
    try {
      const cases: Case[] = [];
      for (const length of lengths) {
        const title = `fair hand-overs with ${length.toLocaleString('en')} in line`;
        const series = await inTurns(
          context,
          title,
          [contender('holdfast-fair'), ...(length <= longestOfRedisson ? javas : [])],
          rounds,
          async (one, round) => ({
            rate: await measure(context, lengthsOf(one), one, `${length}:${round}`, length),
          }),
          false,
        );
        const metrics = [{ key: 'rate', label: 'hand-overs/s', digits: 0 }];
        cases.push(show(context, { id: `line-${length}`, title, metrics, series }));
      }
      return { cases, growths: [growthOf(cases, lengths)] };
    } finally {
      await client.close();
    }
  },
};

async function measure(
  { url, keyPrefix, effort }: RowContext,
  lengths: Lengths,
  one: Contender,
  run: string,
  length: number,
): Promise<number> {
  const target = { peer: one.id, urls: [url], name: `${keyPrefix}line:${one.id}:${run}` };
  using holder = one.start();
  using worker = one.start();
  await holder.ask({ do: 'hold', ...target });
  const span = { fromMs: monotonicMs(), toMs: -1 };
  await worker.ask({ do: 'crowd', ...target, callers: length, ...span });
  const deadlineMs = monotonicMs() + FORMED_WITHIN_MS;
  while ((await lengths(target.name)) < length) {
    if (monotonicMs() > deadlineMs) return Number.NaN; // there is nothing to measure
    await sleep(50);
  }
  await holder.ask({ do: 'let go', name: target.name });
  const { windowMs } = SIZES[effort];
  const count = await worker.ask({ do: 'tally', name: target.name, durationMs: windowMs });
  return (count * 1_000) / windowMs;
}

function growthOf(cases: readonly Case[], lengths: readonly number[]): Growth {
  return {
    id: 'line-growth',
    title: 'Fair hand-overs per second, by the length of the line',
    xLabel: 'in line',
    yLabel: 'hand-overs/s',
    curves: curvesOf(cases, lengths, 'rate'),
  };
}
