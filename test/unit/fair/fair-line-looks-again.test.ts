// What is heard while a look at a fair lock is under way: the look may have been too early, so there is another one after it.
import { beforeEach, expect, it } from 'vitest';
import type { FairPlace } from '../../../src/queue/place.js';
import { fakeFairRedisPerTest } from '../../support/fake-fair-redis.js';

const redis = fakeFairRedisPerTest();
let place: FairPlace;

/** A look is under way. */
beforeEach(async () => {
  place = await redis().waiting();
  await unlocked();
  expect(looks()).toBe(1);
});

function looks(): number {
  return redis().all('handOver').length;
}

function unlocked(): Promise<void> {
  return redis().publish(redis().keys.channel, '0');
}

/** Answers a look at a lock that is held for so long. */
function found(ttlMs: number): Promise<void> {
  return redis().last('handOver').answer([0, '', ttlMs]);
}

it('an unlock leads to another look when the first is answered', async () => {
  await unlocked();
  expect(looks()).toBe(1);
  await found(600_000);
  expect(looks()).toBe(2);
  await redis()
    .last('handOver')
    .answer([0, `1 ${place.ownerId}`, 30_000]);
  expect(place.mayTry).toBe(true);
});

it('an unlock leads to another look when the first fails', async () => {
  await unlocked();
  await redis().last('handOver').fail();
  expect(looks()).toBe(2);
});

it('a subscription that stands leads to another look', async () => {
  await redis().confirmSubscriptions();
  expect(looks()).toBe(1);
  await found(600_000);
  expect(looks()).toBe(2);
});

it('many unlocks lead to one more look', async () => {
  for (let i = 0; i < 5; i++) await unlocked();
  await found(600_000);
  expect(looks()).toBe(2);
  await found(600_000);
  expect(looks()).toBe(2);
});

it('an unlock during the second look leads to a third', async () => {
  await unlocked();
  await found(600_000);
  await unlocked();
  await found(600_000);
  expect(looks()).toBe(3);
});

it('the end of the last place leaves nothing to look for', async () => {
  await unlocked();
  place.leave();
  await found(600_000);
  expect(looks()).toBe(1);
});
