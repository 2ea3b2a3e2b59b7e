// The masters and the transfers in one line of text.

import type { RedlockState } from './scene.js';

export function summary(state: RedlockState): string {
  const { masters, workers, transfers, lostCents, refusals } = state;
  const holder = workers.find((worker) => worker.state === 'holds')?.name ?? 'nobody';
  const up = masters.filter((master) => master.state !== 'killed').length;
  return [
    `${up} of ${masters.length} masters up`,
    `${holder} holds`,
    `${transfers} transfers, ${refusals.count} refusals, ${lostCents} cents lost`,
  ].join(' | ');
}
