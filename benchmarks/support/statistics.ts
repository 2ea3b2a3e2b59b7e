// Quantiles of samples, and ratios of what was measured side by side.

/** The value below which the share `q` of the samples lies; 0.5 is the median. */
export function quantile(samples: readonly number[], q: number): number {
  if (samples.length === 0) return Number.NaN;
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!;
}

export function median(samples: readonly number[]): number {
  return quantile(samples, 0.5);
}

export function mean(samples: readonly number[]): number {
  return samples.reduce((sum, sample) => sum + sample, 0) / samples.length;
}

/** A ratio as it came out round by round, so that a slow minute of the machine is in both its halves. */
export interface Ratio {
  readonly median: number;
  /** Half of the rounds lie between these. */
  readonly lower: number;
  readonly upper: number;
}

/** Compares two series round by round: the i-th values were measured next to each other. */
export function pairedRatio(values: readonly number[], floor: readonly number[]): Ratio {
  const ratios = values.map((value, round) => value / floor[round]!);
  return {
    median: median(ratios),
    lower: quantile(ratios, 0.25),
    upper: quantile(ratios, 0.75),
  };
}

export function formatRatio({ median, lower, upper }: Ratio): string {
  return `${median.toFixed(2)} (${lower.toFixed(2)}-${upper.toFixed(2)})`;
}

/** Jain's fairness index of what each got: 1 when all got the same, 1/n when one of n got everything. */
export function jainIndex(shares: readonly number[]): number {
  const sum = shares.reduce((total, share) => total + share, 0);
  const squares = shares.reduce((total, share) => total + share * share, 0);
  return (sum * sum) / (shares.length * squares);
}
