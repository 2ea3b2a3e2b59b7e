// Places of a client that listens where those who hand over do not count it: they are passed over as if it were gone.
import { beforeEach, expect, it, vi } from 'vitest';
import type { FairPlace } from '../../../src/queue/place.js';
import { fakeFairRedisPerTest, PLACE_LEASE_MS } from '../../support/fake-fair-redis.js';

const IN_LINE = [600_000];

const redis = fakeFairRedisPerTest();
/** In line, with a subscription that stands, and that the server was told of. */
let place: FairPlace;

beforeEach(async () => {
  place = await redis().waiting();
  await redis().confirmSubscriptions();
  expect(saidOfListening()).toEqual([1]);
  await redis().last('renewPlaces').answer(IN_LINE);
});

/** What the last renewal said for each place of whether its client listens. */
function saidOfListening(): unknown[] {
  return redis()
    .last('renewPlaces')
    .args.slice(2)
    .filter((_, index) => index % 2 === 1);
}

/** Whether the join that this sends says that its client listens. */
function joinSays(joining: FairPlace): unknown {
  void joining.try();
  return redis().last('join').args[6];
}

async function renewedAndGone(): Promise<void> {
  redis().server.watchdog.renewAll();
  await redis().last('renewPlaces').answer(['gone']);
}

it('one that is gone though it listened all the while says no more that it listens', async () => {
  await vi.advanceTimersByTimeAsync(1_000);
  await renewedAndGone();
  expect(joinSays(place)).toBe(0);
});

it('nor do other places of its client, now or later', async () => {
  await redis().waiting();
  redis().server.watchdog.renewAll();
  await redis().last('renewPlaces').answer(['gone', 'gone']);
  redis().server.watchdog.renewAll();
  expect(saidOfListening()).toEqual([0, 0]);
  place.leave();
  expect(joinSays(redis().place())).toBe(0);
});

it('until its subscription stands anew', async () => {
  await renewedAndGone();
  await redis().join(place);
  redis().reconnectSubscriber();
  await redis().confirmSubscriptions();
  expect(saidOfListening()).toEqual([1]);
  expect(joinSays(redis().place())).toBe(1);
});

it('or the server says that it counts its client: then it was lost for another reason', async () => {
  await renewedAndGone();
  await redis().join(place);
  await redis().last('pubsub').answer([redis().grantChannel, 1]);
  expect(saidOfListening()).toEqual([1]);
  expect(joinSays(redis().place())).toBe(1);
});

it('but not twice: those who hand over may count another kind of subscription, and would pass it over for ever', async () => {
  await renewedAndGone();
  await redis().join(place);
  await redis().last('pubsub').answer([redis().grantChannel, 1]);
  await redis().last('renewPlaces').answer(IN_LINE);
  await vi.advanceTimersByTimeAsync(1_000);
  await renewedAndGone();
  expect(redis().all('pubsub')).toHaveLength(1);
  expect(joinSays(place)).toBe(0);
});

it('and not as long as the server does not count its client, which is asked once for all places', async () => {
  await redis().waiting();
  redis().server.watchdog.renewAll();
  await redis().last('renewPlaces').answer(['gone', 'gone']);
  expect(redis().all('pubsub')).toHaveLength(1);
  await redis().last('pubsub').answer([redis().grantChannel, 0]);
  expect(joinSays(redis().place())).toBe(0);
});

it('and not where its subscription was lost before the server says that it counts its client', async () => {
  await renewedAndGone();
  redis().reconnectSubscriber();
  await redis().last('pubsub').answer([redis().grantChannel, 1]);
  expect(joinSays(place)).toBe(0);
});

it('one that was passed over while its subscription was lost says that it listens again', async () => {
  await vi.advanceTimersByTimeAsync(1_000);
  redis().reconnectSubscriber();
  await redis().confirmSubscriptions();
  await redis().last('renewPlaces').answer(['gone']);
  expect(joinSays(place)).toBe(1);
});

it('one that lapsed says that it listens again', async () => {
  await vi.advanceTimersByTimeAsync(PLACE_LEASE_MS + 1);
  await renewedAndGone();
  expect(joinSays(place)).toBe(1);
});

it('one that was dropped for what it wants says nothing of whether its client is counted', async () => {
  await redis().waiting();
  await redis().publish(redis().grantChannel, `gone ${place.ownerId}`);
  await redis().last('renewPlaces').answer(['gone']);
  redis().server.watchdog.renewAll();
  expect(saidOfListening()).toEqual([1, 1]);
});

it('and is doubted like any other when it is gone once more', async () => {
  await redis().publish(redis().grantChannel, `gone ${place.ownerId}`);
  await redis().last('renewPlaces').answer(['gone']);
  await redis().join(place);
  await renewedAndGone();
  expect(joinSays(place)).toBe(0);
});
