// Row 2: many callers want one lock. How fast does it change hands, how evenly, how long are the waits, what does it cost the server, and
// are ever two callers inside?
import {
  atLeast,
  atMost,
  valuesOf,
  type Case,
  type Metric,
  type TargetResult,
} from '../report/case.js';
import { median, pairedRatio, quantile, spread, sum } from '../support/figures.js';
import { Crew, section, type SectionOptions } from './crew.js';
import {
  contender,
  inTurns,
  show,
  waitingLocks,
  type Contender,
  type Row,
  type RowContext,
} from './row.js';

export const METRICS: readonly Metric[] = [
  { key: 'rate', label: 'hand-overs/s', digits: 0 },
  { key: 'stays', label: 'stays/s', digits: 0 },
  { key: 'jain', label: 'Jain', digits: 3 },
  { key: 'p50', label: 'wait p50, ms', digits: 1 },
  { key: 'p99', label: 'p99, ms', digits: 1 },
  { key: 'longest', label: 'longest, ms', digits: 0, summary: 'max' },
  { key: 'scripts', label: 'scripts', digits: 2 },
  { key: 'commands', label: 'commands', digits: 1 },
  { key: 'violations', label: 'violations', digits: 0, summary: 'sum' },
  { key: 'stuck', label: 'stuck', digits: 0, summary: 'sum' },
];

interface Topology {
  readonly processes: number;
  readonly callers: number;
}

const SIZES = {
  smoke: { rounds: 1, sliceMs: 100, topologies: [{ processes: 2, callers: 4 }] },
  quick: {
    rounds: 2,
    sliceMs: 400,
    topologies: [
      { processes: 1, callers: 200 },
      { processes: 4, callers: 8 },
    ],
  },
  full: {
    rounds: 5,
    sliceMs: 1_500,
    topologies: [
      { processes: 1, callers: 200 },
      { processes: 4, callers: 8 },
      { processes: 8, callers: 32 },
    ],
  },
} satisfies Record<string, { rounds: number; sliceMs: number; topologies: readonly Topology[] }>;

export const contended: Row = {
  name: 'contended',
  what: 'many callers want one lock, in one process and in several; with a counter inside',
  async run(context) {
    const cases: Case[] = [];
    const targets: TargetResult[] = [];
    const violations: string[] = [];
    for (const topology of SIZES[context.effort].topologies) {
      const { one, control } = await measure(context, topology);
      cases.push(show(context, one));
      targets.push(...targetsOf(one));
      violations.push(...violationsOf(one));
      if (control === 0) violations.push(`${one.title}: the counter does not see violations`);
    }
    const beside = await listener(context);
    return { cases: [...cases, beside.one], targets: [...targets, ...beside.targets], violations };
  },
};

async function measure(
  context: RowContext,
  { processes, callers }: Topology,
): Promise<{ one: Case; control: number }> {
  const { url, redis, keyPrefix, effort, redisson } = context;
  const title = `one lock, ${processes} x ${callers} callers`;
  const { rounds, sliceMs } = SIZES[effort];
  const floors = processes === 1 ? [contender('local-mutex')] : [];
  const contenders = [...floors, ...waitingLocks(effort), ...redisson];
  const counting = { counter: redis, counterUrl: url };
  using crew = new Crew(processes);
  let slice = 0;
  const run = async (one: Contender, durationMs: number): Promise<Record<string, number>> => {
    const name = `${keyPrefix}contended:${processes}x${callers}:${++slice}`;
    return await crew.figuresOf(one, [url], callers, { name, ...counting, durationMs });
  };
  const series = await inTurns(context, title, contenders, rounds, (one, round) =>
    run(one, round === 0 ? sliceMs / 4 : sliceMs),
  );
  const { violations: control = 0 } = await run(contender('nothing'), sliceMs / 4);
  const ceiling = await ceilingOf({ name: `${keyPrefix}ceiling`, ...counting });
  const one: Case = {
    id: `contended-${processes}x${callers}`,
    title: `${title}, each of which reads, awaits and writes a number inside`,
    metrics: METRICS,
    series,
    notes: [
      `violations without any lock: ${control}`,
      `one process alone, with a mutex in memory: ${Math.round(ceiling).toLocaleString('en')} stays/s, which no lock can exceed`,
    ],
    ...(floors.length > 0 && { floor: 'local-mutex' }),
  };
  return { one, control };
}

/** The limit of the section itself: in stays per second, of one process that shares it with nobody. */
async function ceilingOf(options: Omit<SectionOptions, 'durationMs'>): Promise<number> {
  using crew = new Crew(1);
  const alone = contender('local-mutex');
  const slice = { ...options, durationMs: 500 };
  return (await crew.figuresOf(alone, [options.counterUrl], 8, slice)).stays;
}

function targetsOf(one: Case): TargetResult[] {
  const own = (key: string): readonly number[] => valuesOf(one, 'holdfast', key);
  switch (one.id) {
    case 'contended-1x200':
      return [
        atLeast(0.99, '1 x 200 callers, Jain', spread(own('jain'))),
        atLeast(
          0.7,
          '1 x 200 callers, rate / a mutex in memory',
          pairedRatio(own('rate'), valuesOf(one, 'local-mutex', 'rate')),
        ),
      ];
    case 'contended-4x8':
      return [
        atLeast(
          5,
          `4 x 8 callers, rate / ${best(one)}`,
          pairedRatio(own('rate'), valuesOf(one, best(one), 'rate')),
        ),
        atLeast(0.99, '4 x 8 callers, Jain', spread(own('jain'))),
        atMost(100, '4 x 8 callers, longest wait, ms', spread(own('longest'))),
        atMost(1.5, '4 x 8 callers, script calls per acquisition', spread(own('scripts'))),
      ];
    default:
      return [];
  }
}

/** The id of the fastest contender that is not ours. */
function best({ series, floor }: Case): string {
  const others = series.filter(({ id }) => !id.startsWith('holdfast') && id !== floor);
  const rate = (values: (typeof others)[number]['values']): number => median(values['rate'] ?? []);
  return others.reduce((one, other) => (rate(other.values) > rate(one.values) ? other : one)).id;
}

/** Never two callers inside under our locks. */
function violationsOf(one: Case): string[] {
  return ['holdfast', 'holdfast-fair']
    .map((id) => ({ id, count: sum(valuesOf(one, id, 'violations')) }))
    .filter(({ count }) => count !== 0)
    .map(({ id, count }) => `${one.title}: ${id} let in a second caller ${count} times`);
}

const LISTENER_METRICS: readonly Metric[] = [
  { key: 'share', label: 'its share of the stays, %', digits: 2 },
  { key: 'stays', label: 'its stays/s', digits: 1 },
  { key: 'longest', label: 'its longest wait, ms', digits: 0, summary: 'max' },
  { key: 'all', label: 'stays/s of all', digits: 0 },
];

const LISTENER_SIZES = {
  smoke: { rounds: 1, sliceMs: 150, processes: 2 },
  quick: { rounds: 2, sliceMs: 400, processes: 2 },
  full: { rounds: 7, sliceMs: 2_000, processes: 4 },
};

/** Does a caller that only listens for the release, as Redisson does, get the lock while 4 x 8 callers of holdfast want it? */
async function listener(context: RowContext): Promise<{ one: Case; targets: TargetResult[] }> {
  const { url, redis, keyPrefix, effort, redisson } = context;
  const { rounds, sliceMs, processes } = LISTENER_SIZES[effort];
  const title = `one caller that listens, beside ${processes} x 8 callers of holdfast`;
  const holdfast = contender('holdfast');
  const listeners = [contender('redisson-like'), ...redisson.filter(({ id }) => id === 'redisson')];
  using crew = new Crew(processes);
  using ears = new Crew(1);
  let slice = 0;
  const series = await inTurns(context, title, listeners, rounds, async (one) => {
    const name = `${keyPrefix}listener:${++slice}`;
    const options = { name, counter: redis, counterUrl: url, durationMs: sliceMs };
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
  const one = show(context, { id: 'listener', title, metrics: LISTENER_METRICS, series });
  const share = spread(valuesOf(one, 'redisson-like', 'share'));
  const targets = [atLeast(1, 'a caller that only listens beside 4 x 8, % of the stays', share)];
  return { one, targets };
}
