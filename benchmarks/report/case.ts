// One table: the results of each contender, round by round; and the figures that holdfast has to reach.
import {
  median,
  pairedRatio,
  printTable,
  spread,
  sum,
  width,
  type Spread,
} from '../support/figures.js';

export interface Metric {
  readonly key: string;
  /** With its unit. */
  readonly label: string;
  readonly digits: number;
  /** How rounds are combined; the median by default. */
  readonly summary?: 'max' | 'sum';
  /** Compared with the floor, round by round. */
  readonly isRatio?: true;
}

export interface Series {
  readonly id: string;
  readonly label: string;
  /** By the key of the metric, then by round. */
  readonly values: Readonly<Record<string, readonly number[]>>;
}

export interface Case {
  /** Without spaces: the name of its chart. */
  readonly id: string;
  readonly title: string;
  /** The first metric shows how much the rounds differed. */
  readonly metrics: readonly Metric[];
  /** The id of the series that the others are compared with. */
  readonly floor?: string;
  readonly series: readonly Series[];
  readonly notes?: readonly string[];
}

/** A row is marked if its rounds differ by more than this. */
const WIDE = 0.3;

export function seriesOf(
  results: ReadonlyMap<{ id: string; label: string }, readonly Record<string, number>[]>,
): Series[] {
  return [...results].map(([{ id, label }, rounds]) => {
    const keys = Object.keys(rounds[0] ?? {});
    const values = keys.map((key) => [key, rounds.map((round) => round[key]!)] as const);
    return { id, label, values: Object.fromEntries(values) };
  });
}

/** The values of one contender, by round. */
export function valuesOf({ series }: Case, id: string, key: string): readonly number[] {
  return series.find((one) => one.id === id)?.values[key] ?? [];
}

/** The ratio of a contender to the floor of the case. */
export function ratioToFloor(one: Case, id: string, key: string): Spread {
  return pairedRatio(valuesOf(one, id, key), valuesOf(one, one.floor!, key));
}

/** The medians of one metric, of each contender over the sizes of the cases. */
export function curvesOf(
  cases: readonly Case[],
  sizes: readonly number[],
  key: string,
): { label: string; points: (readonly [size: number, figure: number])[] }[] {
  return cases[0]!.series.map(({ id, label }) => ({
    label,
    points: cases
      .map((one, i) => [sizes[i]!, median(valuesOf(one, id, key))] as const)
      .filter(([, figure]) => !Number.isNaN(figure)),
  }));
}

function summaryOf({ summary, key }: Metric, { values }: Series): number {
  const rounds = values[key] ?? [];
  if (summary === 'max') return Math.max(...rounds);
  if (summary === 'sum') return sum(rounds);
  return median(rounds);
}

export function printCase(one: Case): void {
  const { title, metrics, series, floor, notes = [] } = one;
  const ratios = floor === undefined ? [] : metrics.filter(({ isRatio }) => isRatio);
  const floorLabel = series.find(({ id }) => id === floor)?.label ?? '';
  console.log(`\n${title}`);
  printTable([
    [
      '',
      ...metrics.map(({ label }) => label),
      ...ratios.map(({ label }) => `${label.split(',')[0]!} x floor`),
      'spread',
    ],
    ...series.map((row) => [
      row.label,
      ...metrics.map((metric) => formatNumber(summaryOf(metric, row), metric.digits)),
      ...ratios.map(({ key }) => formatRatio(ratioToFloor(one, row.id, key))),
      formatWidth(roundsOf(one, row), WIDE),
    ]),
  ]);
  if (floor !== undefined) console.log(`  floor: ${floorLabel}`);
  for (const note of notes) console.log(`  ${note}`);
}

/** How much the rounds of a contender differ: by its ratio to the floor if there is one. */
function roundsOf(one: Case, { id, values }: Series): number {
  const { key } = one.metrics[0]!;
  if ((values[key]?.length ?? 0) < 2) return Number.NaN; // one round shows no spread
  const isFloor = one.floor === undefined || id === one.floor;
  return width(isFloor ? spread(values[key] ?? []) : ratioToFloor(one, id, key));
}

function formatNumber(value: number, digits: number): string {
  return value.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

// A figure that holdfast has to reach, and whether it does. A missed target is reported and does not fail the run: what counts as slow
// depends on the machine and its network.

export interface TargetResult {
  readonly work: string;
  readonly measured: Spread;
  readonly bound: { readonly atMost: number } | { readonly atLeast: number };
  readonly isMet: boolean;
}

export function atMost(limit: number, work: string, measured: Spread): TargetResult {
  return { work, measured, bound: { atMost: limit }, isMet: measured.median <= limit };
}

export function atLeast(limit: number, work: string, measured: Spread): TargetResult {
  return { work, measured, bound: { atLeast: limit }, isMet: measured.median >= limit };
}

export function printTargets(targets: readonly TargetResult[]): void {
  if (targets.length === 0) return;
  console.log('\ntargets');
  printTable([
    ['', 'measured', 'spread', 'target', ''],
    ...targets.map(({ work, measured, bound, isMet }) => [
      work,
      formatRatio(measured),
      formatWidth(width(measured), WIDE),
      'atMost' in bound ? `<= ${bound.atMost}` : `>= ${bound.atLeast}`,
      isMet ? 'met' : 'missed',
    ]),
  ]);
}

// Figures as text.

/** The median, and the range of the middle half of the rounds. */
export function formatRatio({ median, lower, upper }: Spread): string {
  return `${significant(median)} (${significant(lower)}-${significant(upper)})`;
}

/** Marked if the range is wide. */
function formatWidth(width: number, wide: number): string {
  if (Number.isNaN(width)) return '';
  return `${(width * 100).toFixed(0)} %${width > wide ? ' !' : ''}`;
}

function significant(value: number): string {
  if (value >= 100) return value.toFixed(0);
  return value < 0.1 ? value.toPrecision(2) : value.toFixed(2);
}
