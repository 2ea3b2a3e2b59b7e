// The line as it moves: who holds the lock, who is next, who joined.

import { styleText } from 'node:util';
import type { Worker } from '../support/crew.js';
import { fault, seconds } from '../support/figures.js';
import type { FairState } from './scene.js';

/** How long it is said of somebody that he joined. */
const JUST_NOW_MS = 400;

export function frame(state: FairState): string[] {
  const { workers, waiters, handOvers, outOfOrder, longestWaitMs, lostCents } = state;
  const holder = workers.find((worker) => worker.state === 'holds');
  const others = workers.filter((worker) => worker !== holder && !waiters.includes(worker));
  return [
    holder ? holderRow(holder) : `  ${styleText('dim', '● nobody holds the lock')}`,
    ...waiters.map(waiterRow),
    ...others.map(otherRow),
    '',
    ...(holder ? [''] : []), // so that what is below stays where it is
    [
      `  hand-overs ${handOvers}`,
      fault('out of order', outOfOrder),
      `longest wait ${seconds(longestWaitMs, 2)}`,
      fault('cents lost', lostCents),
    ].join('  '),
    '',
  ];
}

function holderRow({ name, sinceMs }: Worker): string {
  return `  ${styleText('green', `● ${name}   holds the lock`)}   ${forTime(sinceMs)}`;
}

function waiterRow({ name, isAlive, sinceMs }: Worker, index: number): string {
  const place = `  ${index + 1} ${name}   `;
  if (!isAlive) return place + styleText('red', `killed ${forTime(sinceMs)} ago, still listed`);
  if (performance.now() - sinceMs < JUST_NOW_MS) return place + styleText('yellow', 'joined');
  return `${place}${index === 0 ? styleText('bold', 'next') : 'waits'}   ${forTime(sinceMs)}`;
}

function otherRow({ name, isAlive, sinceMs }: Worker): string {
  return isAlive
    ? `  ${styleText('dim', `· ${name}   outside`)}`
    : `  ${styleText('red', `✗ ${name}   killed ${forTime(sinceMs)} ago`)}`;
}

function forTime(sinceMs: number): string {
  return seconds(performance.now() - sinceMs, 1);
}
