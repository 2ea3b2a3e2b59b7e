// The line in one line of text.

import type { FairState } from './scene.js';

export function summary(state: FairState): string {
  const { workers, waiters, handOvers, outOfOrder, lostCents } = state;
  const holder = workers.find((worker) => worker.state === 'holds')?.name ?? 'nobody';
  const names = waiters.map(({ name, isAlive }) => (isAlive ? name : `${name} (killed)`));
  return [
    `${holder} holds`,
    `in line: ${names.join(', ') || 'nobody'}`,
    `${handOvers} hand-overs, ${outOfOrder} out of order, ${lostCents} cents lost`,
  ].join(' | ');
}
