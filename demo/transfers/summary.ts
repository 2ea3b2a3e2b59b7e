// The transfers in one line of text.

import { rate } from '../support/figures.js';
import type { TransfersState } from './scene.js';

export function summary(state: TransfersState): string {
  const { plan, workers, elapsedMs, transfers, handOvers, lostCents } = state;
  const waiting = workers.filter((worker) => worker.state === 'waits').length;
  const holder = workers.find((worker) => worker.state === 'holds')?.name ?? 'nobody';
  return [
    `${transfers} transfers (${rate(transfers, elapsedMs)})`,
    ...(plan.lock !== 'none'
      ? [`${holder} holds, ${waiting} wait, ${handOvers} hand-overs so far`]
      : []),
    `${lostCents.toLocaleString('en')} cents lost`,
  ].join(', ');
}
