// A figure that holdfast has to reach, and whether it does. A missed target is said, not failed: what counts as slow depends
// on the machine and its network.

import { formatRatio, formatWidth } from './format.js';
import { printTable } from '../support/table.js';
import { type Spread, width } from '../support/statistics.js';

export interface TargetResult {
  readonly work: string;
  readonly measured: Spread;
  readonly bound: { readonly atMost: number } | { readonly atLeast: number };
  readonly isMet: boolean;
}

const WIDE = 0.3;

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
