// For how long a lock that was handed over may be relied on, when a place asks before it relies on it, and how old it is.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { type HandedOver, leftMs } from '../../../src/core/protocol.js';
import type { FairPlace } from '../../../src/queue/place.js';
import { fakeFairRedisPerTest, HELD, PLACE_LEASE_MS } from '../../support/fake-fair-redis.js';
import { expectPending } from '../../support/occupancy.js';

const redis = fakeFairRedisPerTest();

async function handedOver(place: FairPlace): Promise<HandedOver> {
  const reply = await place.try();
  if (reply.outcome !== 'handed over') throw new Error(`outcome: ${reply.outcome}`);
  return reply;
}

describe('a watched lock that is handed over', () => {
  it('has what is left of the lease of the place, and needs no confirmation', async () => {
    const place = await redis().waiting();
    await vi.advanceTimersByTimeAsync(4_000);
    await redis().grant(1, place);
    const { deadline: deadline, confirm } = await handedOver(place);
    expect(leftMs(deadline)).toBe(29_698 - 4_000);
    expect(confirm).toBeUndefined();
  });
});

describe('a lock of a fixed lease that is handed over', () => {
  it('lasts no longer than the lease that was asked for, from the turn on', async () => {
    const place = await redis().waiting({ leaseMs: 5_000, isWatched: false });
    await vi.advanceTimersByTimeAsync(4_000);
    await redis().grant(1, place);
    const { deadline: deadline } = await handedOver(place);
    expect(leftMs(deadline)).toBeLessThan(5_000);
    expect(leftMs(deadline)).toBeGreaterThan(4_900);
  });

  it('lasts no longer than the place, whatever was asked for', async () => {
    const place = await redis().waiting({ leaseMs: 120_000, isWatched: false });
    await vi.advanceTimersByTimeAsync(4_000);
    await redis().grant(1, place);
    const { deadline: deadline } = await handedOver(place);
    expect(leftMs(deadline)).toBe(29_698 - 4_000);
  });

  it('is confirmed with the lease that was asked for', async () => {
    const place = await redis().waiting({ leaseMs: 120_000, isWatched: false });
    await redis().grant(1, place);
    const { confirm } = await handedOver(place);
    expect(redis().all('confirm')).toEqual([]);
    const confirmed = confirm?.();
    const { keys, args } = redis().last('confirm');
    const { lock, forced, line, places, channel, grants } = redis().keys;
    expect(keys).toEqual([lock, forced, line, places]);
    expect(args).toEqual([place.ownerId, 120_000, channel, 'PUBLISH', grants, 'PUBLISH']);
    await redis().last('confirm').answer('kept');
    expect(await confirmed).toBe('kept');
  });
});

describe('with less than half of the lease of the place left', () => {
  let place: FairPlace;

  beforeEach(async () => {
    place = await redis().waiting();
    // The watchdog's renewals stay unanswered.
    await vi.advanceTimersByTimeAsync(14_700);
    await redis().grant(1, place);
    expect(place.mayTry).toBe(true);
    expect(redis().all('join')).toHaveLength(1);
  });

  it('a grant is only relied on when the server has said so', async () => {
    const trying = place.try();
    await expectPending(trying);
    const [ownerId, , placeLeaseMs, nonce, ticket] = redis().last('join').args;
    expect([ownerId, placeLeaseMs, nonce, ticket]).toEqual(['me:1', PLACE_LEASE_MS, 3, '1000']);
    await redis().last('join').answer(1);
    expect(await trying).toEqual({ outcome: 'acquired' });
    expect(place.leave()).toBe(false);
  });

  it('a place that asked in vain waits again, and hears the next grant, not the old one', async () => {
    await redis().join(place);
    expect(place.mayTry).toBe(false);
    await redis().grant(1, place);
    await expectPending(place.woken);
    await redis().grant(3, place); // 2 was a renewal
    await expect(handedOver(place)).resolves.toHaveProperty('deadline.usableMs', 29_698);
  });

  it('a place whose question stays unanswered asks again', async () => {
    const trying = expect(place.try()).rejects.toThrow('the connection was lost');
    await redis().last('join').fail();
    await trying;
    void place.try();
    expect(redis().all('join')).toHaveLength(3);
  });
});

it('with half of the lease of the place left, a grant is relied on', async () => {
  const place = await redis().waiting();
  await vi.advanceTimersByTimeAsync(14_690);
  await redis().grant(1, place);
  expect(leftMs((await handedOver(place)).deadline)).toBe(15_008);
});

it('a grant that was heard before the machine slept is not relied on after', async () => {
  const place = await redis().waiting();
  await redis().grant(1, place);
  vi.setSystemTime(Date.now() + 20_000); // the monotonic clock stood still
  const trying = place.try();
  await redis().last('join').answer(HELD);
  expect(await trying).toMatchObject({ outcome: 'held' });
  expect(redis().all('join')).toHaveLength(2);
});

describe('the age of a place', () => {
  it('counts from when the join was sent, so that a slow answer does not delay its renewal', async () => {
    const place = redis().place();
    const trying = place.try();
    await vi.advanceTimersByTimeAsync(4_000);
    await redis().last('join').answer(HELD);
    await trying;
    place.wait({ holder: 'other:1', holderTtlMs: 600_000 }, performance.now());
    expect(place.ageMs()).toBe(4_000);
    await vi.advanceTimersByTimeAsync(5_999);
    expect(redis().all('renewPlaces')).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(redis().all('renewPlaces')).toHaveLength(1);
  });

  it('counts from when the renewal was sent that was answered last', async () => {
    const place = await redis().waiting();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(place.ageMs()).toBe(10_000); // sent, but not answered
    await vi.advanceTimersByTimeAsync(1_000);
    await redis().last('renewPlaces').answer([600_000]);
    expect(place.ageMs()).toBe(1_000);
  });

  it('is not changed by a renewal that fails, which is sent again soon', async () => {
    const place = await redis().waiting();
    await vi.advanceTimersByTimeAsync(10_000);
    await redis().last('renewPlaces').fail();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(place.ageMs()).toBe(11_000);
    expect(redis().all('renewPlaces')).toHaveLength(2);
  });

  it('stays that of the newest command when an older one is answered after it', async () => {
    const place = await redis().waiting();
    await vi.advanceTimersByTimeAsync(20_000);
    const [older, newer] = redis().all('renewPlaces');
    await newer!.answer([600_000]);
    expect(place.ageMs()).toBe(0);
    await older!.answer([600_000]);
    expect(place.ageMs()).toBe(0);
    await redis().grant(2, place);
    expect(place.mayTry).toBe(false);
  });

  it('is not changed by the answer to a command whose lease is over', async () => {
    const place = await redis().waiting();
    await vi.advanceTimersByTimeAsync(40_000);
    const [first] = redis().all('renewPlaces'); // sent 30 s ago
    await first!.answer([600_000]);
    expect(place.ageMs()).toBe(40_000);
  });
});
