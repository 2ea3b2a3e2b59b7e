// Figures as people read them.

import { styleText } from 'node:util';

export function money(cents: number): string {
  return (cents / 100).toLocaleString('en', { minimumFractionDigits: 2 });
}

export function seconds(ms: number, decimals: number): string {
  return `${(ms / 1_000).toFixed(decimals)} s`;
}

export function rate(count: number, elapsedMs: number): string {
  return `${Math.round((count * 1_000) / elapsedMs)}/s`;
}

/** How often happened what never should: red if it did. */
export function fault(what: string, count: number): string {
  return styleText(count > 0 ? 'red' : 'green', `${what} ${count.toLocaleString('en')}`);
}
