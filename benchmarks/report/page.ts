// The page that shows the charts of a run, and what they were made on.

import type { Machine } from '../support/machine.js';
import { formatRatio } from './format.js';
import type { TargetResult } from './target.js';

interface Run {
  readonly date: string;
  readonly machine: Machine;
  readonly targets: readonly TargetResult[];
  /** Titles of the charts, by id. */
  readonly titles: ReadonlyMap<string, string>;
}

export function page({ date, machine, targets, titles }: Run): string {
  const facts = Object.entries(machine).map(([what, value]) => `- ${what}: ${String(value)}`);
  const rows = targets.map(({ work, measured, bound, isMet }) => {
    const limit = 'atMost' in bound ? `<= ${bound.atMost}` : `>= ${bound.atLeast}`;
    return `| ${work} | ${limit} | ${formatRatio(measured)} | ${isMet ? 'met' : '**missed**'} |`;
  });
  const table = ['| work | target | measured | |', '| --- | --- | --- | --- |', ...rows];
  return [
    `# Measured on ${date}`,
    'Written by `npm run bench`. In parentheses: where half of the rounds lie.',
    facts.join('\n'),
    ...(rows.length > 0 ? [table.join('\n')] : []),
    ...[...titles].map(([id, title]) => picture(id, title)),
  ]
    .map((part) => `${part}\n`)
    .join('\n');
}

function picture(id: string, title: string): string {
  return `<picture>
  <source media="(prefers-color-scheme: dark)" srcset="${id}-dark.svg" />
  <img src="${id}-light.svg" alt="${title}" />
</picture>`;
}
