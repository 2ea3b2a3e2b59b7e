// One lock or semaphore that lets several in at the same time: callers of several processes enter for a while, contender by contender.

import { valuesOf, type Case, type Metric } from '../report/case.js';
import { contender, inTurns, show, type Contender, type RowContext } from './row.js';
import { sum } from '../support/figures.js';
import { Crew } from './crew.js';

const SIZES = {
  smoke: { rounds: 1, sliceMs: 100, processes: 2, callers: 12 },
  quick: { rounds: 2, sliceMs: 400, processes: 2, callers: 16 },
  full: { rounds: 5, sliceMs: 1_500, processes: 4, callers: 16 },
};

/** Few write, so it takes a while until somebody gets in beside one who does. */
const CONTROL_MS = 500;

interface SideBySide {
  /** The name of the chart. */
  readonly id: string;
  readonly what: string;
  readonly contenders: readonly Contender[];
  readonly metrics: readonly Metric[];
  /** Of a semaphore. */
  readonly permits?: number;
  /** Of a read-write lock: each so-manieth time a caller writes. */
  readonly writeEvery?: number;
}

/** The case, which is printed, and what was in it that must never be. */
export async function measureSideBySide(
  context: RowContext,
  { id, what, contenders, metrics, permits, writeEvery }: SideBySide,
): Promise<{ one: Case; violations: string[] }> {
  const { url, redis, keyPrefix, effort } = context;
  const { rounds, sliceMs, processes, callers } = SIZES[effort];
  const title = `${what}, ${processes} x ${callers} callers`;
  using crew = new Crew(processes);
  let slice = 0;
  const run = async (one: Contender, durationMs: number): Promise<Record<string, number>> => {
    const name = `${keyPrefix}${id}:${++slice}`;
    const mix = writeEvery === undefined ? {} : { writeEvery };
    const options = { name, counter: redis, counterUrl: url, durationMs, ...mix };
    return await crew.figuresOf(one, [url], callers, options, permits);
  };
  const series = await inTurns(context, title, contenders, rounds, (one, round) =>
    run(one, round === 0 ? sliceMs / 4 : sliceMs),
  );
  const { violations: control = 0 } = await run(
    contender('nothing'),
    Math.max(sliceMs, CONTROL_MS),
  );
  const notes = [`violations without any lock: ${control}`];
  const one = show(context, { id, title, metrics, series, notes });
  const violations = violationsOf(one);
  if (control === 0) violations.push(`${title}: the counter does not see violations`);
  return { one, violations };
}

function violationsOf(one: Case): string[] {
  return one.series
    .filter(({ id }) => id.startsWith('holdfast'))
    .map(({ id }) => ({ id, count: sum(valuesOf(one, id, 'violations')) }))
    .filter(({ count }) => count !== 0)
    .map(({ id, count }) => `${one.title}: ${id} let in ${count} times whom it must not`);
}
