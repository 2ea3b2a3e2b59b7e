// Figures as people read them.

import type { Spread } from '../support/statistics.js';

/** The median, and where half of the rounds lie. */
export function formatRatio({ median, lower, upper }: Spread): string {
  return `${significant(median)} (${significant(lower)}-${significant(upper)})`;
}

/** Marked where it is wide. */
export function formatWidth(width: number, wide: number): string {
  if (Number.isNaN(width)) return '';
  return `${(width * 100).toFixed(0)} %${width > wide ? ' !' : ''}`;
}

function significant(value: number): string {
  if (value >= 100) return value.toFixed(0);
  return value < 0.1 ? value.toPrecision(2) : value.toFixed(2);
}
