// When a client looks at a fair lock for which it stands in line: once for all its places, and only when there is reason to.
import { describe, expect, it, vi } from 'vitest';
import type { FairPlace } from '../../../src/queue/place.js';
import { fakeFairRedisPerTest } from '../../support/fake-fair-redis.js';

const redis = fakeFairRedisPerTest();

/** Stands in line behind a holder whose lease goes on for so long. */
async function waitingFor(holderTtlMs: number): Promise<FairPlace> {
  const place = redis().place();
  await redis().join(place, ['other:1', holderTtlMs, '1000']);
  return place;
}

function looks(): number {
  return redis().all('handOver').length;
}

/** Answers a look at a lock that is held for so long. */
function found(ttlMs: number): Promise<void> {
  return redis().last('handOver').answer([0, '', ttlMs]);
}

/** It is looked at when so much time has gone by, and not before. */
async function expectNextLookIn(delayMs: number): Promise<void> {
  const before = looks();
  await vi.advanceTimersByTimeAsync(delayMs - 1);
  expect(looks()).toBe(before);
  await vi.advanceTimersByTimeAsync(1);
  expect(looks()).toBe(before + 1);
}

function unlocked(): Promise<void> {
  return redis().publish(redis().keys.channel, '0');
}

describe('the lock is looked at', () => {
  it('when the lease of the holder is over, once for all of this client', async () => {
    for (let i = 0; i < 5; i++) await waitingFor(4_000);
    await expectNextLookIn(4_000);
    expect(redis().last('handOver').args[0]).toBe(''); // nobody gives anything up
    expect(vi.getTimerCount()).toBe(1); // the watchdog's
  });

  it('when the lease is over that the last look found', async () => {
    await waitingFor(4_000);
    await expectNextLookIn(4_000);
    await found(2_500);
    await expectNextLookIn(2_500);
  });

  it('again when a look came a little too early', async () => {
    await waitingFor(4_000);
    await expectNextLookIn(4_000);
    await found(2);
    await expectNextLookIn(2);
  });

  it('later when a renewal finds the lease prolonged', async () => {
    await waitingFor(4_000);
    redis().server.watchdog.renewAll();
    await redis().last('renewPlaces').answer([9_000]);
    await expectNextLookIn(9_000);
  });

  it('when the lease ends that was told last, and 1,000 who are told that it ends ever later set no timer each', async () => {
    await waitingFor(4_000);
    const setTimer = vi.spyOn(globalThis, 'setTimeout');
    for (let i = 1; i <= 1_000; i++) await waitingFor(4_000 + 10 * i);
    expect(setTimer).not.toHaveBeenCalled();
    setTimer.mockRestore();
    await expectNextLookIn(14_000);
  });

  it('when the lease is over by the wall clock, as after the machine was suspended', async () => {
    await waitingFor(9_000);
    vi.setSystemTime(Date.now() + 6_000);
    await vi.advanceTimersByTimeAsync(2_000); // the clocks are looked at each second
    expect(looks()).toBe(0);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(looks()).toBe(1);
  });

  it('sooner when the holder confirms a shorter lease', async () => {
    await waitingFor(9_000);
    await redis().publish(redis().grantChannel, 'ends 1500');
    await expectNextLookIn(1_500);
  });

  it('at once when a renewal finds it free', async () => {
    await waitingFor(9_000);
    redis().server.watchdog.renewAll();
    await redis().last('renewPlaces').answer([-2]);
    expect(looks()).toBe(1);
  });

  it('at once when it was unlocked, or when the subscription stands', async () => {
    await waitingFor(9_000);
    await redis().confirmSubscriptions();
    expect(looks()).toBe(1);
    await found(9_000);
    await unlocked();
    expect(looks()).toBe(2);
  });

  it('never because of time when it has no expiry', async () => {
    await waitingFor(-1);
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(looks()).toBe(0);
    await unlocked();
    await found(-1);
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(looks()).toBe(1);
  });

  it('no more when the last place was left', async () => {
    const places = [await waitingFor(4_000), await waitingFor(4_000)];
    for (const place of places) place.leave();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(looks()).toBe(0);
  });

  it('for those who stay when others left', async () => {
    const places = [await waitingFor(4_000), await waitingFor(4_000)];
    places[0]!.leave();
    await expectNextLookIn(4_000);
  });
});

describe('while a look is under way', () => {
  it('there is no second one, whatever is heard', async () => {
    await waitingFor(4_000);
    await unlocked();
    await unlocked();
    await redis().publish(redis().grantChannel, 'ends 100');
    await redis().confirmSubscriptions();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(looks()).toBe(1);
  });

  it.each([-2, 9_000])('the last place may be left: nothing comes of %i', async (ttlMs) => {
    const place = await waitingFor(4_000);
    await unlocked();
    place.leave();
    await found(ttlMs);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(redis().all('renewPlaces')).toEqual([]);
    expect(looks()).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a look', () => {
  it('that finds it free with nobody in line has the places renewed, which are gone', async () => {
    const places = [await waitingFor(4_000), await waitingFor(4_000)];
    await unlocked();
    await found(-2);
    expect(redis().all('renewPlaces')).toHaveLength(1);
    await redis().last('renewPlaces').answer(['gone', 'gone']);
    expect(places.map((place) => place.mayTry)).toEqual([true, true]);
  });

  it('that hands the lock to one of ours wakes it', async () => {
    const places = [await waitingFor(4_000), await waitingFor(4_000)];
    await unlocked();
    await redis()
      .last('handOver')
      .answer([0, `2 ${places[1]!.ownerId}`, 30_000]);
    expect(places.map((place) => place.mayTry)).toEqual([false, true]);
  });

  it('that fails is made good for by the next renewal', async () => {
    await waitingFor(4_000);
    await expectNextLookIn(4_000);
    await redis().last('handOver').fail();
    await vi.advanceTimersByTimeAsync(6_000);
    expect(looks()).toBe(1);
    await redis().last('renewPlaces').answer([3_000]);
    await expectNextLookIn(3_000);
  });

  it('that fails does not keep a message from being followed by another', async () => {
    await waitingFor(4_000);
    await unlocked();
    await redis().last('handOver').fail();
    await unlocked();
    expect(looks()).toBe(2);
  });
});

it('a lock that is forced open goes on to the first in line, whatever becomes of that', async () => {
  const forcing = redis().lock.forceUnlock(1_000);
  expect(redis().sent.map(({ script }) => script)).toEqual(['forceUnlock', 'handOver']);
  await redis().last('handOver').fail();
  await redis().last('forceUnlock').answer(['other:1']);
  expect(await forcing).toBe('other:1');
});
