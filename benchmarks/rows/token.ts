// What a token costs: a pair of a fenced lock beside one of a plain lock.

import { Redis } from 'ioredis';
import { atMost, printCase, ratioToFloor, type Case } from '../report/case.js';
import { contender, type Row } from './row.js';
import { measurePairs, SIZES } from './pairs.js';
import { Soloists } from './crew.js';

export const token: Row = {
  name: 'token',
  what: 'what a fencing token costs: a fenced pair beside a plain one; 1, 16 and 256 in flight',
  async run(context) {
    const redis = new Redis(context.url);
    using workers = new Soloists([contender('holdfast'), contender('holdfast-fenced')]);
    try {
      const cases: Case[] = [];
      for (const lanes of SIZES[context.effort].lanes) {
        const title = `acquire + release of a fenced lock, uncontended, ${lanes} in flight`;
        const pairs = {
          id: `token-${lanes}`,
          title,
          floor: 'holdfast',
          call: 'acquire',
          lanes,
        } as const;
        const one = await measurePairs(context, redis, workers, pairs);
        context.progress.clear();
        printCase(one);
        cases.push(one);
      }
      const ratio = ratioToFloor(cases[0]!, 'holdfast-fenced', 'p50');
      return { cases, targets: [atMost(1.1, 'fenced pair, p50 / plain pair', ratio)] };
    } finally {
      redis.disconnect();
    }
  },
};
