// The masters and the transfers as plain text, a look every second: for pipes, logs and NO_COLOR.

import { seconds } from '../figures.js';
import type { View } from '../view.js';
import type { RunPlan, RunState } from './run.js';

const INTERVAL_MS = 1_000;

export class PlainView implements View<RunPlan, RunState> {
  #nextLineMs = INTERVAL_MS;

  begin({ title, explanation }: RunPlan): void {
    console.log(`\n${title}\n${explanation}\n`);
  }

  update(state: RunState): void {
    if (state.elapsedMs < this.#nextLineMs) return;
    this.#nextLineMs += INTERVAL_MS;
    console.log(line(state));
  }

  tell(event: string): void {
    console.log(`        ${event}`);
  }

  end(state: RunState): void {
    console.log(line(state));
  }

  close(): void {
    // Nothing to undo.
  }
}

function line({ masters, workers, elapsedMs, transfers, lostCents, refusals }: RunState): string {
  const holder = workers.find(({ state }) => state === 'holds')?.name ?? 'nobody';
  const up = masters.filter(({ state }) => state !== 'killed').length;
  return [
    `  ${seconds(elapsedMs, 0).padStart(4)}  ${up} of ${masters.length} masters up`,
    `${holder} holds`,
    `${transfers} transfers, ${refusals.count} refusals, ${lostCents} cents lost`,
  ].join(' | ');
}
