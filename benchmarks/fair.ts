// The fair lock: is it fair, what does a hand-over cost, and does it matter how many wait?

import { crowd } from './fair/crowd.js';
import { handOvers } from './fair/hand-overs.js';
import { latency } from './fair/latency.js';
import { memory } from './fair/memory.js';
import type { Benchmark } from './support/benchmark.js';

export const fair: Benchmark = {
  name: 'fair',
  async run(context) {
    const isSound = await handOvers(context);
    await latency(context);
    await crowd(context);
    await memory(context);
    return isSound;
  },
};
