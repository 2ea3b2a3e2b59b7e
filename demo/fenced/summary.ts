// The workers and the transfers in one line of text.

import type { FencedState } from './scene.js';

export function summary(state: FencedState): string {
  const { workers, transfers, largestToken, lostCents } = state;
  const holder = workers.find((worker) => worker.state === 'holds')?.name ?? 'nobody';
  const paused = workers.find((worker) => worker.state === 'paused');
  return [
    `${holder} holds${paused ? `, ${paused.name} is paused` : ''}`,
    ...(largestToken === undefined ? [] : [`largest token seen ${largestToken}`]),
    `${transfers} transfers, ${lostCents.toLocaleString('en')} cents lost`,
  ].join(' | ');
}
