// How a place in line is had, had again, and left; and what is known then of what may be left on the server.
import { describe, expect, it, vi } from 'vitest';
import { fakeFairRedisPerTest, HELD, PLACE_LEASE_MS } from '../../support/fake-fair-redis.js';
import { expectPending, settle } from '../../support/occupancy.js';

/** The lock is free, but others are first. */
const FREE = ['other:1', -2, '1000'];

const redis = fakeFairRedisPerTest();

describe('a join', () => {
  it('says what is wanted, and on which channel grants are heard', async () => {
    const place = redis().place({ leaseMs: 5_000, isWatched: false });
    expect(await redis().join(place, 1)).toEqual({ outcome: 'acquired' });
    const { keys, args } = redis().last('join');
    expect(keys).toEqual(['orders', 'holdfast_line:{orders}', 'holdfast_places:{orders}']);
    const { listensAt } = redis().server;
    // owner, lease, lease of the place, nonce, ticket, isFixed, isListening, listensAt
    expect(args).toEqual(['me:1', 5_000, PLACE_LEASE_MS, 1, '0', 1, 0, listensAt]);
  });

  it('says that grants are heard once another place listens, and after that one left', async () => {
    const first = await redis().waiting();
    expect(redis().last('join').args[6]).toBe(0);
    await redis().confirmSubscriptions();
    const second = await redis().waiting();
    expect(redis().last('join').args[6]).toBe(1);
    first.leave();
    second.leave();
    void redis().place().try();
    expect(redis().last('join').args[6]).toBe(1);
  });

  it('of one who does not want to wait asks for no place', async () => {
    const place = redis().place({ waitMs: 0 });
    const trying = place.try();
    expect(redis().last('join').args[2]).toBe(0);
    await redis().last('join').answer(['other:1', 600_000, '0']);
    expect(await trying).toMatchObject({ holder: 'other:1', holderTtlMs: 600_000 });
  });

  it('that failed is repeated with another nonce', async () => {
    const place = redis().place();
    const trying = expect(place.try()).rejects.toThrow('the connection was lost');
    await redis().last('join').fail();
    await trying;
    void place.try();
    expect(
      redis()
        .all('join')
        .map(({ args }) => args[3]),
    ).toEqual([1, 2]);
    expect(redis().last('join').args[4]).toBe('0');
  });
});

describe('a place that is gone', () => {
  it('is had again with the same ticket', async () => {
    const place = await redis().waiting();
    redis().server.watchdog.renewAll();
    await redis().last('renewPlaces').answer(['gone']);
    expect(place.mayTry).toBe(true);
    await place.woken;
    expect(await redis().join(place)).toMatchObject({ outcome: 'held' });
    expect(redis().last('join').args.slice(3, 5)).toEqual([3, '1000']);
    expect(place.mayTry).toBe(false);
    await expectPending(place.woken);
  });

  it('had been handed the lock in vain: it joins the line instead of entering', async () => {
    const place = await redis().waiting();
    redis().server.watchdog.renewAll();
    await redis().grant(2, place);
    await redis().last('renewPlaces').answer(['gone']);
    expect(place.mayTry).toBe(true);
    expect(await redis().join(place)).toMatchObject({ outcome: 'held' });
    expect(redis().all('join')).toHaveLength(2);
  });
});

describe('a free lock with others first', () => {
  it('is offered to them, and then looked at once more', async () => {
    const trying = redis().place().try();
    await redis().last('join').answer(FREE);
    expect(redis().last('handOver').args[0]).toBe(''); // nobody gives anything up
    expect(redis().all('join')).toHaveLength(1);
    await redis().last('handOver').answer([0, '5 other:2', 30_000]);
    expect(redis().last('join').args.slice(3, 5)).toEqual([2, '1000']);
    await redis().last('join').answer(['other:2', 30_000, '1000']);
    expect(await trying).toMatchObject({ outcome: 'held', holder: 'other:2' });
  });

  it('is ours when those were dead', async () => {
    const place = redis().place();
    const trying = place.try();
    await redis().last('join').answer(FREE);
    await redis()
      .last('handOver')
      .answer([0, `1 ${place.ownerId}`, 30_000]);
    await redis().last('join').answer(1);
    expect(await trying).toEqual({ outcome: 'acquired' });
    expect(place.leave()).toBe(false);
  });

  it('that stays so is waited for, and looked at again', async () => {
    const place = redis().place();
    const trying = place.try();
    await redis().last('join').answer(FREE);
    await redis().last('handOver').answer([0, '', -2]);
    await redis().last('join').answer(FREE);
    expect(await trying).toMatchObject({ outcome: 'held', holderTtlMs: 0 });
    expect(redis().sent.map(({ script }) => script)).toEqual(['join', 'handOver', 'join']);
    place.wait({ holder: 'other:1', holderTtlMs: 0 }, performance.now());
    await vi.advanceTimersByTimeAsync(1);
    expect(redis().all('handOver')).toHaveLength(2);
  });

  it('that cannot be offered to them fails the try', async () => {
    const trying = expect(redis().place().try()).rejects.toThrow('the connection was lost');
    await redis().last('join').answer(FREE);
    await redis().last('handOver').fail();
    await trying;
    expect(redis().all('join')).toHaveLength(1);
  });
});

describe('what may be left on the server', () => {
  it.each([
    { mayWait: true, reply: 1, isLeft: false, state: 'acquired' },
    { mayWait: true, reply: HELD, isLeft: true, state: 'in line' },
    { mayWait: false, reply: 1, isLeft: false, state: 'acquired without a wish to wait' },
    { mayWait: false, reply: HELD, isLeft: false, state: 'held, without a wish to wait' },
  ])('when it is $state: $isLeft', async ({ mayWait, reply, isLeft }) => {
    const place = redis().place({ waitMs: mayWait ? Infinity : 0 });
    const trying = place.try();
    await redis().last('join').answer(reply);
    await trying;
    expect(place.leave()).toBe(isLeft);
  });

  it('when it never tried: nothing', () => {
    expect(redis().place().leave()).toBe(false);
  });

  it.each([true, false])('when its join stays unanswered: a place if it wanted one', (mayWait) => {
    const place = redis().place({ waitMs: mayWait ? Infinity : 0 });
    void place.try();
    expect(place.leave()).toBe(mayWait);
  });

  it('when its join failed: maybe a place', async () => {
    const place = redis().place();
    const trying = expect(place.try()).rejects.toThrow('the connection was lost');
    await redis().last('join').fail();
    await trying;
    expect(place.leave()).toBe(true);
  });

  it('when the lock was handed over and entered: nothing that is unwanted', async () => {
    const place = await redis().waiting();
    await redis().grant(1, place);
    await place.try();
    expect(place.leave()).toBe(false);
  });

  it('when the lock was handed over and not entered: the lock', async () => {
    const place = await redis().waiting();
    await redis().grant(1, place);
    expect(place.leave()).toBe(true);
  });

  it('when the place was gone and its next join stays unanswered: maybe a place', async () => {
    const place = await redis().waiting();
    redis().server.watchdog.renewAll();
    await redis().last('renewPlaces').answer(['gone']);
    void place.try();
    await settle();
    expect(place.leave()).toBe(true);
  });
});

it('a place that was left is renewed no more', async () => {
  const place = await redis().waiting();
  place.leave();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(redis().all('renewPlaces')).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});
