// Clients that want the same lock on a server in memory get it equally often, as processes do on a real server.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { contend, leastShare } from '../../support/contention.js';

const clients: Holdfast[] = [];

function newClients(redis: MemoryRedis, count: number): Holdfast[] {
  const added = Array.from({ length: count }, () => new Holdfast({ redis }));
  clients.push(...added);
  return added;
}

afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

const CROWDS = [
  { count: 3, callers: 8, holdMs: 2 },
  { count: 2, callers: 4, holdMs: 2 },
  { count: 3, callers: 1, holdMs: 2 },
  { count: 2, callers: 1, holdMs: 0 },
  { count: 3, callers: 8, holdMs: 0 },
  { count: 3, callers: 2, holdMs: 15 },
];

describe.each(CROWDS)(
  'of $count clients with $callers callers each, $holdMs ms a hold',
  (crowd) => {
    const { count, ...each } = crowd;

    it('none gets less than a third of an even share', async () => {
      const of = newClients(new MemoryRedis(), count);
      expect(leastShare(await contend(of, { ...each, forMs: 700 }))).toBeGreaterThan(1 / 3);
    });

    it('none gets less than a third of an even share in the time of fake timers', async () => {
      vi.useFakeTimers();
      const of = newClients(new MemoryRedis(), count);
      const counts = contend(of, { ...each, holdMs: Math.max(each.holdMs, 1), forMs: 1_000 });
      await vi.advanceTimersByTimeAsync(2_000);
      expect(leastShare(await counts)).toBeGreaterThan(1 / 3);
    });
  },
);

it('while time stands still, two clients that want the lock in turn are never kept waiting by each other', async () => {
  vi.useFakeTimers();
  const locks = newClients(new MemoryRedis(), 2).map((client) => client.getLock('till'));
  let stays = 0;
  const work = async (index: number): Promise<void> => {
    for (let round = 0; round < 30; round++)
      await locks[index]!.withLock(() => Promise.resolve(stays++));
  };
  await Promise.all([work(0), work(1)]);
  for (let round = 0; round < 20; round++) await work(round % 2);
  expect(stays).toBe(660);
});

it('a caller that only lets others pass is not told to wait for a holder', async () => {
  const [one, other] = newClients(new MemoryRedis(), 2);
  const lock = one!.getLock('till');
  const holders: string[] = [];
  one!.on('waiting', ({ holder }) => holders.push(holder));
  const hold = await lock.acquire();
  const waiting = other!.getLock('till').acquire();
  await new Promise((resolve) => setTimeout(resolve, 20));
  await hold.release();
  await (await waiting).release();
  for (let round = 0; round < 5; round++) await lock.withLock(() => undefined); // the other client still listens
  expect(holders).toEqual([]);
});
