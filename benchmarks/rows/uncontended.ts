// Row 1: take and release where nobody else wants the lock, with 1, 16 and 256 in flight.

import { atLeast, atMost, ratioToFloor, type Case, type TargetResult } from '../report/case.js';
import type { Spread } from '../support/figures.js';
import { contender, npmLocks, show, type Row } from './row.js';
import { measurePairs, SIZES } from './pairs.js';
import { Soloists } from './crew.js';

const CALLS = { acquire: 'acquire + release', withLock: 'withLock' } as const;

export const uncontended: Row = {
  name: 'uncontended',
  what: 'take and release where nobody else wants the lock; 1, 16 and 256 in flight',
  async run(context) {
    using workers = new Soloists(
      [contender('raw'), ...npmLocks(context.effort), ...context.redisson].filter(
        ({ id, isTunedForWaiting }) => !isTunedForWaiting && id !== 'redisson-fair',
      ),
    );
    const cases: Case[] = [];
    for (const call of ['acquire', 'withLock'] as const) {
      for (const lanes of SIZES[context.effort].lanes) {
        const id = `${call}-${lanes}`;
        const title = `${CALLS[call]}, uncontended, ${lanes} in flight`;
        const pairs = { id, title, floor: 'raw', call, lanes };
        cases.push(show(context, await measurePairs(context, workers, pairs)));
      }
    }
    return { cases, targets: cases.flatMap(targetsOf) };
  },
};

function targetsOf(one: Case): TargetResult[] {
  const ratio = (key: string): Spread => ratioToFloor(one, 'holdfast', key);
  // Before Node.js 24 an AsyncLocalStorage in use slows every promise.
  const hasCheapStorage = Number(process.versions.node.split('.')[0]) >= 24;
  switch (one.id) {
    case 'acquire-1':
      return [atMost(1.12, 'uncontended pair, p50 / raw pair', ratio('p50'))];
    case 'withLock-1':
      return [atMost(1.15, 'uncontended withLock, p50 / raw pair', ratio('p50'))];
    case 'acquire-256':
      return [atLeast(1.5, '256 in flight, rate / raw pair', ratio('rate'))];
    case 'withLock-256':
      return [
        atLeast(
          hasCheapStorage ? 1.3 : 1,
          '256 in flight, withLock, rate / raw pair',
          ratio('rate'),
        ),
      ];
    default:
      return [];
  }
}
