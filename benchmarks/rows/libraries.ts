// What a pair costs on each client library: holdfast on ioredis and on node-redis, each beside the raw pair of the same library.

import type { Case } from '../report/case.js';
import { contender, show, type Row } from './row.js';
import { measurePairs, SIZES } from './pairs.js';
import { Soloists } from './crew.js';

const LIBRARIES = [
  { library: 'ioredis', floor: 'raw', ours: 'holdfast' },
  { library: 'node-redis', floor: 'raw-node-redis', ours: 'holdfast-node-redis' },
];

export const libraries: Row = {
  name: 'libraries',
  what: 'a pair on ioredis and on node-redis, each beside a raw pair of that library; 1, 16 and 256 in flight',
  async run(context) {
    // With HOLDFAST_LIBRARY=redis@6 there is no ioredis for holdfast.
    const measured = LIBRARIES.slice(process.env['HOLDFAST_LIBRARY']?.startsWith('redis') ? 1 : 0);
    using workers = new Soloists(
      measured.flatMap(({ floor, ours }) => [contender(floor), contender(ours)]),
    );
    const cases: Case[] = [];
    for (const lanes of SIZES[context.effort].lanes) {
      const id = `libraries-${lanes}`;
      const title = `acquire + release, uncontended, ${lanes} in flight`;
      const pairs = { id, title, floor: 'raw', call: 'acquire', lanes } as const;
      const all = await measurePairs(context, workers, pairs);
      for (const { library, floor, ours } of measured) {
        const one: Case = {
          ...all,
          id: `${id}-${library}`,
          title: `${title}, on ${library}`,
          floor,
          series: all.series.filter((series) => series.id === floor || series.id === ours),
        };
        cases.push(show(context, one));
      }
    }
    return { cases };
  },
};
