// The cost of an uncontended pair beyond its two round trips: promises, timers and heap, compared with a raw pair.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startChild } from '../../support/child.js';
import type { PairCost } from '../../support/children/pair-counter.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

let server: RedisServer;
let costs: Record<string, PairCost>;

beforeAll(async () => {
  server = await startRedis();
  await using child = startChild('pair-counter.ts', {
    HOLDFAST_TEST_REDIS_URL: server.url,
    HOLDFAST_TEST_LOCK: uniqueName(),
  });
  ({ costs } = (await child.next('costs', 120_000)) as unknown as {
    costs: Record<string, PairCost>;
  });
  for (const [title, { promises, timers, heapKib }] of Object.entries(costs)) {
    console.log(
      `${title}: ${promises.toFixed(1)} promises, ${timers.toFixed(1)} timers, ${heapKib.toFixed(1)} KiB of heap more than a raw pair`,
    );
  }
}, 150_000);

afterAll(() => server[Symbol.asyncDispose]());

const isNodeRedis = (process.env['HOLDFAST_LIBRARY'] ?? '').startsWith('redis@');
/** node-redis writes what one turn of the event loop sends in a `setImmediate`. */
const timers = isNodeRedis ? 2 : 0;
/** It allocates more for each command than ioredis, which sends the raw pair. */
const moreKib = isNodeRedis ? 2 : 0;
const budgets: [string, PairCost][] = [
  ['acquire() and release()', { promises: 14, timers, heapKib: 15 + moreKib }],
  ['withLock()', { promises: 18, timers, heapKib: 18 + moreKib }],
];

it.each(budgets)('%s keeps to its budget', (title, budget) => {
  const { promises, timers, heapKib } = costs[title]!;
  expect(Math.round(promises)).toBeLessThanOrEqual(budget.promises);
  expect(Math.round(timers)).toBe(budget.timers); // so the process is known to use the library under test
  expect(heapKib).toBeLessThanOrEqual(budget.heapKib);
});
