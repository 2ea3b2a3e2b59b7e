// The README's example of a semaphore: a limit on concurrent requests over all processes.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, inject, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { callPartner } from '../../recipes/semaphore.js';
import { uniqueName } from '../../support/unique-name.js';

it('at most ten requests run at a time, where a large one counts for four', async () => {
  const options = { redis: inject('redisUrl'), keyPrefix: `${uniqueName('recipe')}:` };
  await using one = new Holdfast(options);
  await using other = new Holdfast(options);
  let underWay = 0;
  let most = 0;
  const request = async (weight: number): Promise<number> => {
    underWay += weight;
    most = Math.max(most, underWay);
    await sleep(10);
    underWay -= weight;
    return weight;
  };
  const calls = Array.from({ length: 40 }, (_, i) => {
    const weight = i % 4 === 3 ? 4 : 1;
    return callPartner(i % 2 ? one : other, () => request(weight), weight);
  });
  expect(await Promise.all(calls)).toHaveLength(40);
  expect(most).toBeLessThanOrEqual(10);
  expect(most).toBeGreaterThan(4);
});
