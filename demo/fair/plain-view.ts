// The line as plain text, a look at it every second: for pipes, logs and NO_COLOR.

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

function line({ workers, waiters, elapsedMs, handOvers, outOfOrder, lostCents }: RunState): string {
  const holder = workers.find(({ state }) => state === 'holds')?.name ?? 'nobody';
  const names = waiters.map(({ name, isAlive }) => (isAlive ? name : `${name} (killed)`));
  return [
    `  ${seconds(elapsedMs, 0).padStart(4)}  ${holder} holds`,
    `in line: ${names.join(', ') || 'nobody'}`,
    `${handOvers} hand-overs, ${outOfOrder} out of order, ${lostCents} cents lost`,
  ].join(' | ');
}
