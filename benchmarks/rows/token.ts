// What a token costs: a pair of a fenced lock beside one of a plain lock.

import { atMost, ratioToFloor, type Case } from '../report/case.js';
import { contender, show, type Row } from './row.js';
import { measurePairs, SIZES } from './pairs.js';
import { Soloists } from './crew.js';

export const token: Row = {
  name: 'token',
  what: 'what a fencing token costs: a fenced pair beside a plain one; 1, 16 and 256 in flight',
  async run(context) {
    using workers = new Soloists([contender('holdfast'), contender('holdfast-fenced')]);
    const cases: Case[] = [];
    for (const lanes of SIZES[context.effort].lanes) {
      const one = await measurePairs(context, workers, {
        id: `token-${lanes}`,
        title: `acquire + release of a fenced lock, uncontended, ${lanes} in flight`,
        floor: 'holdfast',
        call: 'acquire',
        lanes,
      });
      cases.push(show(context, one));
    }
    const ratio = ratioToFloor(cases[0]!, 'holdfast-fenced', 'p50');
    return { cases, targets: [atMost(1.1, 'fenced pair, p50 / plain pair', ratio)] };
  },
};
