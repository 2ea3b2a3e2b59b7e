// Answers and grants that come when a place has moved on: it gave up, tried anew, or its try stays without an answer.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { FairPlace } from '../../../src/queue/place.js';
import { fakeFairRedisPerTest, HELD } from '../../support/fake-fair-redis.js';
import { expectPending } from '../../support/occupancy.js';

/** The lock is free, but others are first. */
const FREE = ['other:1', -2, '1000'];

const redis = fakeFairRedisPerTest();

function scriptsSent(): string[] {
  return redis().sent.map(({ script }) => script);
}

/** One that joined with nonce 1, and has so many renewals on their way, with nonces from 2 on. */
async function renewing(count: number): Promise<FairPlace> {
  const place = await redis().waiting();
  for (let i = 0; i < count; i++) redis().server.watchdog.renewAll();
  return place;
}

async function answerRenewal(nonce: number, reply: unknown): Promise<void> {
  const renewal = redis()
    .all('renewPlaces')
    .find(({ args }) => args[1] === nonce);
  await renewal!.answer([reply]);
}

async function expectAsleep(place: FairPlace): Promise<void> {
  expect(place.mayTry).toBe(false);
  await expectPending(place.woken);
}

/** That it has the lock, without asking. */
async function expectHandedOver(place: FairPlace): Promise<void> {
  const { length } = redis().all('join');
  expect(place.mayTry).toBe(true);
  expect(await place.try()).toMatchObject({ outcome: 'handed over' });
  expect(redis().all('join')).toHaveLength(length);
}

/** That it takes nothing for granted, but asks. */
function expectAsks(place: FairPlace): void {
  const { length } = redis().all('join');
  void place.try();
  expect(redis().all('join')).toHaveLength(length + 1);
}

describe('a place that was left while it tried', () => {
  it('offers the lock to nobody when its join is answered', async () => {
    const place = redis().place();
    void place.try();
    expect(place.leave()).toBe(true);
    await redis().last('join').answer(FREE);
    expect(scriptsSent()).toEqual(['join']);
  });

  it('does not join again when its offer is answered', async () => {
    const place = redis().place();
    void place.try();
    await redis().last('join').answer(FREE);
    expect(place.leave()).toBe(true);
    await redis().last('handOver').answer([0, '', -2]);
    expect(scriptsSent()).toEqual(['join', 'handOver']);
  });
});

describe('a try without an answer', () => {
  let place: FairPlace;
  let trying: Promise<void>;

  beforeEach(async () => {
    place = await renewing(1);
    await answerRenewal(2, 'gone');
    trying = expect(place.try()).rejects.toThrow('the connection was lost'); // nonce 3
  });

  it('forgets the grant that came meanwhile: the lock may be lost again since', async () => {
    await redis().grant(3, place);
    await redis().last('join').fail();
    await trying;
    expectAsks(place);
  });

  it('refuses the grant that comes later', async () => {
    await redis().last('join').fail();
    await trying;
    await redis().grant(3, place);
    expectAsks(place);
  });
});

describe('a place that was told that it is gone', () => {
  it('refuses grants from before while it joins again', async () => {
    const place = await renewing(1);
    await answerRenewal(2, 'gone');
    const triedAtMs = performance.now();
    const trying = place.try(); // nonce 3
    await redis().grant(1, place);
    await redis().grant(2, place);
    await redis().last('join').answer(HELD);
    await trying;
    place.wait({ holder: 'other:1', holderTtlMs: 600_000 }, triedAtMs);
    await expectAsleep(place);
    await redis().grant(3, place);
    await expectHandedOver(place);
  });

  it('and joined since is not told again by an older renewal', async () => {
    const place = await renewing(2);
    await answerRenewal(2, 'gone');
    await redis().join(place); // nonce 4
    await answerRenewal(3, 'gone');
    await expectAsleep(place);
    await redis().grant(4, place);
    await expectHandedOver(place);
  });

  it('and has been handed the lock since keeps it, whatever an older renewal found', async () => {
    const place = await renewing(2);
    await answerRenewal(2, 'gone');
    await redis().join(place);
    await redis().grant(4, place);
    await answerRenewal(3, 'gone');
    await expectHandedOver(place);
  });

  it('hears a grant while it joins, whatever an older renewal found', async () => {
    const place = await renewing(2);
    await answerRenewal(2, 'gone');
    const triedAtMs = performance.now();
    const trying = place.try();
    await answerRenewal(3, 'gone');
    await redis().grant(4, place);
    await redis().last('join').answer(HELD);
    await trying;
    place.wait({ holder: 'other:1', holderTtlMs: 600_000 }, triedAtMs);
    await expectHandedOver(place);
  });

  it('by a renewal that overtook its join asks again when the join is answered', async () => {
    const place = await renewing(1);
    await answerRenewal(2, 'gone');
    const triedAtMs = performance.now();
    const trying = place.try(); // nonce 3
    redis().server.watchdog.renewAll(); // nonce 4
    await answerRenewal(4, 'gone');
    await redis().last('join').answer(HELD);
    await trying;
    place.wait({ holder: 'other:1', holderTtlMs: 600_000 }, triedAtMs);
    expect(redis().last('renewPlaces').args.slice(1)).toEqual([5, place.ownerId, 0]);
    await redis().grant(3, place);
    await expectAsleep(place); // what was granted may have been lost by then: the renewal tells
    await answerRenewal(5, 'yours');
    await expectHandedOver(place);
  });
});

it('one that may not wait subscribes to nothing, leaves no timer, and nothing on the server', async () => {
  const place = redis().place({ waitMs: 0 });
  expect(await redis().join(place, ['other:1', 4_000, '0'])).toMatchObject({ outcome: 'held' });
  expect(redis().subscriptions).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
  expect(place.leave()).toBe(false);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(scriptsSent()).toEqual(['join']);
});
