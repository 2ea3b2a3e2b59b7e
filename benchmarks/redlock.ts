// The Redlock on five masters: what an acquire and release cost, also while two masters are silent, and when many want it.

import { startMasters } from '../test/support/redis-topologies.js';
import { contention } from './redlock/contention.js';
import { latency } from './redlock/latency.js';
import { silentMasters } from './redlock/silent-masters.js';
import type { Benchmark } from './support/benchmark.js';

export const redlock: Benchmark = {
  name: 'redlock',
  async run(context) {
    if (process.env['HOLDFAST_TEST_BACKEND'] === 'none') {
      console.log('\nredlock: left out, it takes masters of its own, and none can be started here');
      return true;
    }
    await using masters = await startMasters(7);
    const [spare, another, ...five] = masters;
    const urls = five.map(({ url }) => url);
    await latency(context, urls);
    await silentMasters(context, five, [spare!, another!]);
    return await contention(context, urls);
  },
};
