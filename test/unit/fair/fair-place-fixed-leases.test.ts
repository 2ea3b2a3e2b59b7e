// Fixed leases of locks that are handed over: whole when the turn comes, however old the place is, and always confirmed.
import { expect, it, vi } from 'vitest';
import { leftMs } from '../../../src/core/protocol.js';
import { fakeFairRedisPerTest } from '../../support/fake-fair-redis.js';

const redis = fakeFairRedisPerTest();

it.each([20, 80, 1_000])('a lease of %i ms counts from the turn on', async (leaseMs) => {
  const place = await redis().waiting({ leaseMs, isWatched: false });
  await vi.advanceTimersByTimeAsync(9_900);
  await redis().grant(1, place);
  const reply = await place.try();
  if (reply.outcome !== 'handed over') throw new Error(`outcome: ${reply.outcome}`);
  expect(leftMs(reply.deadline)).toBeGreaterThan(0.85 * leaseMs);
  expect(leftMs(reply.deadline)).toBeLessThanOrEqual(leaseMs);
});

it('a hand-over that a join finds counts from when that was sent, and is confirmed', async () => {
  const place = redis().place({ leaseMs: 5_000, isWatched: false });
  const trying = place.try();
  await vi.advanceTimersByTimeAsync(1_000);
  await redis().last('join').answer(2);
  const reply = await trying;
  if (reply.outcome !== 'handed over') throw new Error(`outcome: ${reply.outcome}`);
  expect(leftMs(reply.deadline)).toBeLessThanOrEqual(4_000);
  expect(leftMs(reply.deadline)).toBeGreaterThan(3_900);
  void reply.confirm?.();
  expect(redis().last('confirm').args.slice(0, 2)).toEqual([place.ownerId, 5_000]);
  expect(place.leave()).toBe(false);
});
