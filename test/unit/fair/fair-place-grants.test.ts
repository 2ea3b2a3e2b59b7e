// Which grants a place in line takes: only those that its newest commands account for, and each for as long as that.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { FairPlace } from '../../../src/queue/place.js';
import { fakeFairRedisPerTest, HELD, PLACE_LEASE_MS } from '../../support/fake-fair-redis.js';
import { expectPending } from '../../support/occupancy.js';

const IN_LINE = [600_000];

const redis = fakeFairRedisPerTest();
/** Joined with nonce 1. */
let place: FairPlace;
let joinedAtMs: number;

beforeEach(async () => {
  joinedAtMs = performance.now();
  place = await redis().waiting();
});

/** Sends a renewal, with the next nonce; resolves to the time when it was sent. */
async function renewAfter(delayMs: number): Promise<number> {
  await vi.advanceTimersByTimeAsync(delayMs);
  redis().server.watchdog.renewAll();
  return performance.now();
}

/** That it has the lock, without asking, for as long as what was sent at that time accounts for. */
async function expectHandedOverSince(sentAtMs: number): Promise<void> {
  const joins = redis().all('join').length;
  expect(place.mayTry).toBe(true);
  await place.woken;
  expect(await place.try()).toMatchObject({
    outcome: 'handed over',
    deadline: { since: { monotonicMs: sentAtMs }, usableMs: 29_698 },
  });
  expect(redis().all('join')).toHaveLength(joins);
}

async function expectAsleep(): Promise<void> {
  expect(place.mayTry).toBe(false);
  await expectPending(place.woken);
}

it('one that waits in line is asleep', async () => {
  await expectAsleep();
});

describe('a grant', () => {
  it('with the nonce of the join counts from when the join was sent', async () => {
    await vi.advanceTimersByTimeAsync(5_000);
    await redis().grant(1, place);
    await expectHandedOverSince(joinedAtMs);
  });

  it('with the nonce of a renewal counts from when that renewal was sent', async () => {
    const renewedAtMs = await renewAfter(5_000);
    await vi.advanceTimersByTimeAsync(1_000);
    await redis().last('renewPlaces').answer(IN_LINE);
    await vi.advanceTimersByTimeAsync(1_000);
    await redis().grant(2, place);
    await expectHandedOverSince(renewedAtMs);
  });

  it('with the nonce of a renewal whose answer has not come is taken', async () => {
    const renewedAtMs = await renewAfter(5_000);
    await redis().grant(2, place);
    await expectHandedOverSince(renewedAtMs);
  });

  it('with the newest confirmed nonce is taken while a renewal is on its way', async () => {
    await renewAfter(5_000);
    await redis().grant(1, place);
    await expectHandedOverSince(joinedAtMs);
  });

  it('that overtakes the answer to the renewal is not undone by it', async () => {
    const renewedAtMs = await renewAfter(5_000);
    await redis().grant(2, place);
    await redis().last('renewPlaces').answer(IN_LINE);
    await expectHandedOverSince(renewedAtMs);
  });

  it('with a nonce older than the newest confirmed one is refused', async () => {
    await renewAfter(5_000);
    await redis().last('renewPlaces').answer(IN_LINE);
    await redis().grant(1, place);
    await expectAsleep();
  });

  it('with a nonce that the place never had is refused', async () => {
    await redis().waiting(); // has nonce 2
    for (const nonce of [0, 2, 3, 1.5, NaN]) await redis().grant(nonce, place);
    await expectAsleep();
  });

  it('that comes twice counts once, from the first', async () => {
    await renewAfter(5_000);
    await redis().grant(1, place);
    await redis().grant(1, place);
    await redis().grant(2, place);
    await expectHandedOverSince(joinedAtMs);
  });

  it('for a place that left is refused', async () => {
    place.leave();
    await redis().grant(1, place);
    await expectAsleep();
  });

  it('that comes again after the place was left with the lock changes nothing', async () => {
    await redis().grant(1, place);
    await place.try();
    expect(place.leave(PLACE_LEASE_MS)).toBe(false);
    const { length } = redis().sent;
    await redis().grant(1, place);
    expect(redis().sent).toHaveLength(length);
    expect(vi.getTimerCount()).toBe(2); // the channels linger; the watchdog's is at rest
  });

  it('that comes when the lock is not held any more is given back', async () => {
    await redis().grant(1, place);
    await place.try();
    place.leave(PLACE_LEASE_MS);
    redis().lock.forget(place.ownerId);
    await redis().grant(1, place);
    expect(redis().last('handOver').args[0]).toBe(place.ownerId);
  });

  it('that comes after the place was given up is given back', async () => {
    place.leave();
    await redis().grant(1, place);
    expect(redis().last('handOver').args[0]).toBe(place.ownerId);
  });
});

describe('a grant that overtakes the answer to the join', () => {
  it('of a place had again is taken, and the place stays up', async () => {
    await renewAfter(5_000);
    await redis().last('renewPlaces').answer(['gone']);
    const joinedAgainAtMs = performance.now();
    const trying = place.try(); // nonce 3
    await redis().grant(3, place);
    await redis().last('join').answer(HELD);
    expect(await trying).toMatchObject({ outcome: 'held' });
    place.wait({ holder: 'other:1', holderTtlMs: 600_000 }, joinedAgainAtMs);
    await expectHandedOverSince(joinedAgainAtMs);
  });

  it('of a new place, while another one listens, is heard by it', async () => {
    place = redis().place();
    const triedAtMs = performance.now();
    const trying = place.try();
    await vi.advanceTimersByTimeAsync(1);
    await redis().grant(2, place);
    await redis().last('join').answer(HELD);
    await trying;
    place.wait({ holder: 'other:1', holderTtlMs: 600_000 }, triedAtMs);
    await expectHandedOverSince(triedAtMs);
  });
});

describe('while nobody of its client stands in line, but the subscription still stands', () => {
  /** One that has sent its join. */
  async function joining(): Promise<FairPlace> {
    await redis().confirmSubscriptions();
    await redis().last('renewPlaces').answer(IN_LINE);
    place.leave();
    const newcomer = redis().place();
    redis().sent.length = 0;
    void newcomer.try();
    await vi.advanceTimersByTimeAsync(10);
    return newcomer;
  }

  /** The join is answered, and the place waits as an acquisition has it. */
  async function joined(newcomer: FairPlace): Promise<void> {
    await redis().last('join').answer(HELD);
    newcomer.wait({ holder: 'other:1', holderTtlMs: 600_000 }, performance.now() - 10);
  }

  function scriptsSent(): string[] {
    return redis().sent.map(({ script }) => script);
  }

  it('a grant that overtakes the answer to the join is taken without asking', async () => {
    const newcomer = await joining();
    await redis().grant(Number(redis().last('join').args[3]), newcomer);
    await joined(newcomer);
    expect(newcomer.mayTry).toBe(true);
    expect(await newcomer.try()).toMatchObject({ outcome: 'handed over' });
    expect(scriptsSent()).toEqual(['join']);
  });

  it('one with a nonce that the place never had is refused', async () => {
    const newcomer = await joining();
    await redis().grant(1, newcomer);
    await joined(newcomer);
    expect(newcomer.mayTry).toBe(false);
  });

  it('the message of a grant to another caller does not have the place renewed', async () => {
    const newcomer = await joining();
    await redis().grant(1, { ownerId: 'other:7' });
    await joined(newcomer);
    expect(newcomer.mayTry).toBe(false);
    expect(scriptsSent()).toEqual(['join']);
  });

  it('a new end of the lease has the place renewed, since the answer may tell the one before', async () => {
    const newcomer = await joining();
    await redis().publish(redis().grantChannel, 'ends 1500');
    await joined(newcomer);
    expect(scriptsSent()).toEqual(['join', 'renewPlaces']);
  });

  it('the message of a release to nobody has the place renewed, since the answer may tell of the holder before', async () => {
    const newcomer = await joining();
    await redis().publish(redis().keys.channel, '0');
    await joined(newcomer);
    expect(scriptsSent()).toEqual(['join', 'renewPlaces']);
  });

  it('a grant that comes when the join was given up is given back', async () => {
    const newcomer = await joining();
    newcomer.leave();
    await redis().grant(Number(redis().last('join').args[3]), newcomer);
    expect(scriptsSent()).toEqual(['join', 'handOver']);
    expect(redis().last('handOver').args[0]).toBe(newcomer.ownerId);
  });

  it('a copy of a grant that comes while the lock is held changes nothing', async () => {
    const newcomer = await joining();
    const nonce = Number(redis().last('join').args[3]);
    await redis().grant(nonce, newcomer);
    await joined(newcomer);
    await newcomer.try();
    newcomer.leave(PLACE_LEASE_MS);
    await redis().grant(nonce, newcomer);
    expect(scriptsSent()).toEqual(['join']);
  });
});

it('a renewal that finds the lock handed over counts from when it was sent', async () => {
  const renewedAtMs = await renewAfter(5_000);
  await vi.advanceTimersByTimeAsync(1_000);
  await redis().last('renewPlaces').answer(['yours']);
  await expectHandedOverSince(renewedAtMs);
});

it('renewals that stay unanswered are remembered for as long as a place is kept, and no longer', async () => {
  await vi.advanceTimersByTimeAsync(40_000);
  // The join was sent with nonce 1 at 0 s, and then one renewal every 10 s.
  expect(
    redis()
      .all('renewPlaces')
      .map(({ args: [, nonce] }) => nonce),
  ).toEqual([2, 3, 4, 5]);
  await redis().grant(1, place);
  await redis().grant(2, place);
  await expectAsleep();
  await redis().grant(3, place);
  expect(place.mayTry).toBe(true);
});
