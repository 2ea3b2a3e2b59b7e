// The plain view: a line every two seconds, for pipes, logs and NO_COLOR.

import { rate, seconds } from '../figures.js';
import type { View } from '../view.js';
import type { PhasePlan, PhaseState } from './phase.js';

const INTERVAL_MS = 2_000;

export class PlainView implements View<PhasePlan, PhaseState> {
  #nextLineMs = INTERVAL_MS;

  begin(plan: PhasePlan): void {
    this.#nextLineMs = INTERVAL_MS;
    console.log(`\n${plan.title}\n${plan.explanation}\n`);
  }

  update(state: PhaseState): void {
    if (state.elapsedMs < this.#nextLineMs) return;
    this.#nextLineMs += INTERVAL_MS;
    console.log(line(state));
  }

  tell(event: string): void {
    console.log(`        ${event}`);
  }

  end(state: PhaseState): void {
    console.log(line(state));
  }

  close(): void {
    // Nothing to undo.
  }
}

function line(state: PhaseState): string {
  const { plan, workers, elapsedMs, transfers, handOvers, lostCents } = state;
  const count = (wanted: string): number => workers.filter((w) => w.state === wanted).length;
  const holder = workers.find((worker) => worker.state === 'holds')?.name ?? 'nobody';
  return [
    `  ${seconds(elapsedMs, 0).padStart(4)}  ${transfers} transfers (${rate(transfers, elapsedMs)})`,
    ...(plan.lock !== 'none'
      ? [`${holder} holds, ${count('waits')} wait, ${handOvers} hand-overs so far`]
      : []),
    `${lostCents.toLocaleString('en')} cents lost`,
  ].join(', ');
}
