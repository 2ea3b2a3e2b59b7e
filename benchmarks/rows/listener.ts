// Does somebody get the lock who only listens for its release, as Redisson does, while 4 x 8 callers of holdfast want it?

import type { Redis } from 'ioredis';
import { printCase, seriesOf, valuesOf, type Case, type Metric } from '../report/case.js';
import { atLeast, type TargetResult } from '../report/target.js';
import { interleaved } from '../support/interleaved.js';
import { quantile, spread } from '../support/statistics.js';
import { contender, type Contender } from './contenders.js';
import { Crew } from './crew.js';
import type { RowContext } from './row.js';
import { section } from './section.js';

const METRICS: readonly Metric[] = [
  { key: 'share', label: 'its share of the stays, %', digits: 2 },
  { key: 'stays', label: 'its stays/s', digits: 1 },
  { key: 'longest', label: 'its longest wait, ms', digits: 0, summary: 'max' },
  { key: 'all', label: 'stays/s of all', digits: 0 },
];

const SIZES = {
  smoke: { rounds: 1, sliceMs: 150, processes: 2 },
  quick: { rounds: 2, sliceMs: 400, processes: 2 },
  full: { rounds: 7, sliceMs: 2_000, processes: 4 },
};

export async function listener(
  { url, keyPrefix, effort, redisson, progress }: RowContext,
  counter: Redis,
): Promise<{ one: Case; targets: TargetResult[] }> {
  const { rounds, sliceMs, processes } = SIZES[effort];
  const title = `one who listens, beside ${processes} x 8 callers of holdfast`;
  progress.begin(title);
  const holdfast = contender('holdfast');
  const listeners = [contender('redisson-like'), ...redisson.filter(({ id }) => id === 'redisson')];
  using crew = new Crew(processes);
  using ears = new Crew(1);
  let slice = 0;
  const results = await interleaved(listeners, rounds, async (one: Contender, round) => {
    progress.step(`round ${round} of ${rounds}, ${one.label}`);
    const name = `${keyPrefix}listener:${++slice}`;
    const options = { name, counter, counterUrl: url, durationMs: sliceMs };
    const { crowds, figures } = await crew.on(holdfast, [url], 8, (parties) =>
      ears.on(one, [url], 1, (ear) => section([...parties, ...ear], options)),
    );
    const own = crowds.at(-1)!;
    const stays = own.callers.length;
    return {
      share: (stays * 1e5) / (figures.stays * sliceMs),
      stays: (stays * 1_000) / sliceMs,
      longest: quantile(own.waitsMs, 1),
      all: figures.stays,
    };
  });
  const one: Case = { id: 'listener', title, metrics: METRICS, series: seriesOf(results) };
  progress.clear();
  printCase(one);
  const share = spread(valuesOf(one, 'redisson-like', 'share'));
  const targets = [atLeast(1, 'one who only listens beside 4 x 8, % of the stays', share)];
  return { one, targets };
}
