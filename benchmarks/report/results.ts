// What a run found: for people as a table of targets and charts, for programs as JSON.
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Effort, RowOutcome } from '../rows/row.js';
import type { Machine } from '../support/machine.js';
import { formatRatio, type Case, type TargetResult } from './case.js';
import { drawBars, drawGrowth, THEMES } from './charts.js';

export class Results {
  readonly #machine: Machine;
  readonly #effort: Effort;
  readonly #outcomes = new Map<string, RowOutcome>();

  constructor(machine: Machine, effort: Effort) {
    this.#machine = machine;
    this.#effort = effort;
  }

  add(row: string, outcome: RowOutcome): void {
    this.#outcomes.set(row, outcome);
  }

  get targets(): TargetResult[] {
    // A smoke run is too short to say anything.
    return this.#effort === 'smoke' ? [] : this.#all(({ targets = [] }) => targets);
  }

  get violations(): string[] {
    return this.#all(({ violations = [] }) => violations);
  }

  get #cases(): Case[] {
    return this.#all(({ cases }) => cases);
  }

  /** The charts, drawn and thrown away: their names. */
  draw(): string[] {
    return [...this.#charts().keys()];
  }

  /** Writes `<date>.json`, the charts, and a page that shows them; returns the paths. */
  write(folder: URL): string[] {
    mkdirSync(folder, { recursive: true });
    const date = new Date().toISOString().slice(0, 10);
    const charts = this.#charts();
    const titles = new Map(this.#charted().map(({ id, title }) => [id, title]));
    const files = new Map([
      [`${date}.json`, `${JSON.stringify(this.#record(date), null, 1)}\n`],
      ['README.md', page({ date, machine: this.#machine, targets: this.targets, titles })],
      ...charts,
    ]);
    return [...files].map(([name, content]) => {
      const file = new URL(name, folder);
      writeFileSync(file, content);
      return fileURLToPath(file);
    });
  }

  #record(date: string): object {
    const rows = Object.fromEntries(this.#outcomes);
    return { date, effort: this.#effort, machine: this.#machine, rows };
  }

  /** SVG by file name. */
  #charts(): Map<string, string> {
    const charts = new Map<string, string>();
    for (const [name, theme] of Object.entries(THEMES)) {
      for (const chart of this.#charted()) charts.set(`${chart.id}-${name}.svg`, chart.draw(theme));
    }
    return charts;
  }

  #charted(): { id: string; title: string; draw(theme: (typeof THEMES)['light']): string }[] {
    const growths = this.#all(({ growths: found = [] }) => found);
    return [
      ...this.#cases
        .filter(({ series }) => series.length > 1)
        .map((one) => ({ id: one.id, title: one.title, draw: drawBars.bind(undefined, one) })),
      ...growths.map((one) => ({
        id: one.id,
        title: one.title,
        draw: drawGrowth.bind(undefined, one),
      })),
    ];
  }

  #all<T>(pick: (outcome: RowOutcome) => readonly T[]): T[] {
    return [...this.#outcomes.values()].flatMap(pick);
  }
}

// The page that shows the charts of a run, and what they were made on.

interface Run {
  readonly date: string;
  readonly machine: Machine;
  readonly targets: readonly TargetResult[];
  /** Titles of the charts, by id. */
  readonly titles: ReadonlyMap<string, string>;
}

function page({ date, machine, targets, titles }: Run): string {
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
