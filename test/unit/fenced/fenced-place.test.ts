// A place in line for a fenced lock takes a grant only with its token; without one it asks, and is told.
import { beforeEach, describe, expect, it } from 'vitest';
import type { FairPlace } from '../../../src/queue/place.js';
import { FencedFairBackend } from '../../../src/locks/fenced.js';
import { fakeFairRedisPerTest, HELD, PLACE_LEASE_MS } from '../../support/fake-fair-redis.js';

const redis = fakeFairRedisPerTest();
let fenced: FencedFairBackend;

beforeEach(() => {
  const { server, lock } = redis();
  fenced = new FencedFairBackend(server, 'orders', lock.newOwnerId, 5_000);
});

/** Joined with nonce 1. */
async function waiting(wanted = {}): Promise<FairPlace> {
  const place = redis().place(wanted, fenced);
  await redis().join(place, HELD);
  return place;
}

it('a join says that a token is wanted, which key has the last one, and how long to remember it', async () => {
  await redis().join(redis().place({}, fenced), [1, '1700000000000001']);
  const { keys, args } = redis().last('join');
  expect(keys.at(-1)).toBe('redisson_lock_token:{orders}');
  expect([args[5], args[8]]).toEqual([2, 5_000]);
  void redis().place({ isWatched: false, leaseMs: 1_000 }, fenced).try();
  expect(redis().last('join').args[5]).toBe(3);
});

it('a join that takes the lock is answered with the token', async () => {
  const acquired = await redis().join(redis().place({}, fenced), [1, '1700000000000001']);
  expect(acquired).toEqual({ outcome: 'acquired', token: 1_700_000_000_000_001n });
});

it('a join that finds the lock its own is answered with the token', async () => {
  const place = redis().place({ isWatched: false, leaseMs: 1_000 }, fenced);
  expect(await redis().join(place, [2, '1700000000000001'])).toMatchObject({
    outcome: 'handed over',
    token: 1_700_000_000_000_001n,
  });
});

describe('a grant', () => {
  it('with a token is taken without asking', async () => {
    const place = await waiting();
    await redis().publish(redis().grantChannel, `1:1700000000000002 ${place.ownerId}`);
    expect(place.mayTry).toBe(true);
    expect(place.claim()).toMatchObject({
      outcome: 'handed over',
      token: 1_700_000_000_000_002n,
      confirm: undefined,
    });
    expect(redis().all('join')).toHaveLength(1);
  });

  it('without a token, of one who gives none, is asked for one', async () => {
    const place = await waiting();
    await redis().grant(1, place);
    expect(place.mayTry).toBe(true);
    expect(place.claim()).toBeUndefined();
    const trying = place.try();
    await redis().last('join').answer([1, '1700000000000003']);
    expect(await trying).toEqual({ outcome: 'acquired', token: 1_700_000_000_000_003n });
    expect(redis().all('join')).toHaveLength(2);
  });

  it('that a renewal found, after another one was heard with a token, is asked for a newer token', async () => {
    const place = await waiting();
    await redis().publish(redis().grantChannel, `1:1700000000000002 ${place.ownerId}`);
    redis().server.watchdog.renewAll();
    await redis().last('renewPlaces').answer(['yours']);
    expect(place.claim()).toBeUndefined();
    void place.try();
    expect(redis().all('join')).toHaveLength(2);
  });

  it('that overtakes the answer to its own join brings its token', async () => {
    const place = redis().place({}, fenced);
    const other = await waiting(); // which listens
    const trying = place.try();
    await redis().publish(redis().grantChannel, `2:1700000000000004 ${place.ownerId}`);
    await redis().last('join').answer(HELD);
    const reply = await trying;
    if (reply.outcome === 'held') place.wait(reply, performance.now());
    expect(place.claim()).toMatchObject({ token: 1_700_000_000_000_004n });
    other.leave();
  });

  it('for a fixed lease is confirmed, and keeps its token', async () => {
    const place = await waiting({ isWatched: false, leaseMs: PLACE_LEASE_MS / 2 });
    await redis().publish(redis().grantChannel, `1:1700000000000005 ${place.ownerId}`);
    const claimed = place.claim();
    expect(claimed?.token).toBe(1_700_000_000_000_005n);
    expect(claimed?.confirm).toBeDefined();
  });
});
