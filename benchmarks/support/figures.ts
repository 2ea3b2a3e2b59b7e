// The clock of the benchmarks, statistics of the measurements, and tables.

/** The value below which the share `q` of the samples lies, interpolated between two samples; 0.5 is the median. */
export function quantile(samples: readonly number[], q: number): number {
  if (samples.length === 0) return Number.NaN;
  const sorted = Float64Array.from(samples).sort();
  const position = q * (sorted.length - 1);
  const below = Math.floor(position);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below]! + (position - below) * (sorted[above]! - sorted[below]!);
}

export function median(samples: readonly number[]): number {
  return quantile(samples, 0.5);
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** The results of the rounds: half of the rounds lie between `lower` and `upper`. */
export interface Spread {
  readonly median: number;
  readonly lower: number;
  readonly upper: number;
}

export function spread(values: readonly number[]): Spread {
  return {
    median: median(values),
    lower: quantile(values, 0.25),
    upper: quantile(values, 0.75),
  };
}

/**
 * The ratios of two series round by round, so that a slow minute of the machine affects both sides of each: the i-th values were measured
 * next to each other.
 */
export function pairedRatio(values: readonly number[], floor: readonly number[]): Spread {
  return spread(values.map((value, round) => value / floor[round]!));
}

/** The width of the middle half of the rounds, as a share of the median. */
export function width({ median, lower, upper }: Spread): number {
  return upper === lower ? 0 : (upper - lower) / Math.abs(median);
}

/** Jain's fairness index of the callers' shares: 1 when all are equal, 1/n when one of n got everything. */
export function jainIndex(shares: readonly number[]): number {
  const squares = sum(shares.map((share) => share * share));
  return squares === 0 ? Number.NaN : sum(shares) ** 2 / (shares.length * squares);
}

// The clock of the benchmarks: CLOCK_MONOTONIC, which on Linux is the same in all processes of a machine.

/** Milliseconds, with a resolution of less than a microsecond. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

// Prints a table: columns as wide as their content, numbers right-aligned.

/** The first row is the head. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  for (const [index, row] of rows.entries()) {
    const cells = row.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!),
    );
    console.log(`  ${cells.join('   ')}`.trimEnd());
    if (index === 0) console.log(`  ${widths.map((width) => '-'.repeat(width)).join('   ')}`);
  }
}
