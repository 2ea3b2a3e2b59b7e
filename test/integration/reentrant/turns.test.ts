// Clients of one process that want the same lock of a real server get it equally often.
import { afterEach, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient } from '../../support/clients.js';
import { contend, leastShare } from '../../support/contention.js';

const clients: Holdfast[] = [];

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

it.each([
  { count: 3, callers: 8, holdMs: 2 },
  { count: 2, callers: 4, holdMs: 2 },
  { count: 3, callers: 8, holdMs: 0 },
  { count: 3, callers: 1, holdMs: 2 },
  { count: 2, callers: 1, holdMs: 0 },
])(
  'of $count clients with $callers callers each, $holdMs ms a hold, none gets less than a third of an even share',
  async ({ count, ...each }) => {
    clients.push(...Array.from({ length: count }, () => newClient()));
    expect(leastShare(await contend(clients, { ...each, forMs: 2_000 }))).toBeGreaterThan(1 / 3);
  },
  30_000,
);

it('a call with a short wait gets the free lock right after a release, while another client listens', async () => {
  const [one, two] = [newClient(), newClient()];
  clients.push(one, two);
  const [lock, others] = [one, two].map((client) => client.getLock('short-waits'));
  const hold = await lock!.acquire();
  expect(await others!.tryLock(20)).toBe(false); // from now on it listens
  await hold.release();
  for (const wait of [1, 5, 50, 0]) {
    expect(await lock!.tryLock(wait)).toBe(true);
    await lock!.unlock();
  }
});
