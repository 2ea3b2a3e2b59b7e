// Figures as people read them.

export function money(cents: number): string {
  return (cents / 100).toLocaleString('en', { minimumFractionDigits: 2 });
}

export function seconds(ms: number, decimals: number): string {
  return `${(ms / 1_000).toFixed(decimals)} s`;
}

export function rate(count: number, elapsedMs: number): string {
  return `${Math.round((count * 1_000) / elapsedMs)}/s`;
}
