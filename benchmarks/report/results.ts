// What a run found: for people as a table of targets and charts, for programs as JSON.

import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Effort, RowOutcome } from '../rows/row.js';
import type { Machine } from '../support/machine.js';
import type { Case } from './case.js';
import { drawBars } from './bars.js';
import { drawGrowth } from './curves.js';
import { page } from './page.js';
import type { TargetResult } from './target.js';
import { THEMES } from './theme.js';

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
