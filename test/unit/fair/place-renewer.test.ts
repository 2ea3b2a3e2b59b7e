// How places in line are renewed: which go in one call, what it says of each, and what the answers mean.
import { describe, expect, it, vi } from 'vitest';
import { FairLockBackend } from '../../../src/locks/fair.js';
import type { FairPlace } from '../../../src/queue/place.js';
import { FairServices } from '../../../src/queue/queue.js';
import { RefusedError } from '../../../src/redis/failure.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { fakeFairRedisPerTest, PLACE_LEASE_MS } from '../../support/fake-fair-redis.js';

const redis = fakeFairRedisPerTest();

/** One in line for the lock of this name. */
async function waitingFor(name: string): Promise<FairPlace> {
  const { server, lock } = redis();
  const other = new FairLockBackend(server, '', name, lock.newOwnerId);
  const place = redis().place({}, other, new LockKeys(name));
  await redis().join(place);
  return place;
}

/** The nonces of the renewals so far. */
function nonces(): unknown[] {
  return redis()
    .all('renewPlaces')
    .map(({ args: [, nonce] }) => nonce);
}

describe('a renewal', () => {
  it('names the keys of each place, and each owner with whether its grants are heard', async () => {
    await waitingFor('a');
    await redis().confirmSubscriptions();
    await waitingFor('b');
    redis().server.watchdog.renewAll();
    const { keys, args } = redis().last('renewPlaces');
    expect(keys).toEqual([
      ...['a', 'holdfast_line:{a}', 'holdfast_places:{a}'],
      ...['b', 'holdfast_line:{b}', 'holdfast_places:{b}'],
    ]);
    expect(args).toEqual([PLACE_LEASE_MS, 4, 'me:1', 1, 'me:2', 0]); // 2 was the renewal of a alone
  });

  it('is one call with one nonce for many places, and the next has a higher one', async () => {
    for (let i = 0; i < 500; i++) await redis().waiting();
    redis().server.watchdog.renewAll();
    redis().server.watchdog.renewAll();
    expect(nonces()).toEqual([501, 502]);
    await redis().waiting();
    expect(redis().last('join').args[3]).toBe(503);
  });

  it('of more places than go into one call has a nonce for each call', async () => {
    for (let i = 0; i < 501; i++) await redis().waiting();
    redis().server.watchdog.renewAll();
    await vi.waitFor(() => {
      expect(nonces()).toEqual([502, 503]); // in several turns of the event loop
    });
    expect(
      redis()
        .all('renewPlaces')
        .map(({ keys }) => keys.length),
    ).toEqual([1_500, 3]);
  });

  it('counts for each place with the nonce of its call', async () => {
    const places = [await waitingFor('a'), await waitingFor('b')];
    redis().server.watchdog.renewAll();
    const [inA] = places;
    await redis().publish(new LockKeys('a').grants + redis().server.listensAt, `3 ${inA!.ownerId}`);
    expect(places.map((place) => place.mayTry)).toEqual([true, false]);
  });

  it('is for the places of one slot in a cluster, and for all elsewhere', async () => {
    const { connection } = redis().server;
    const placeRenewer = redis().server.shared(FairServices).renewer;
    const place = await waitingFor('eu:{orders}:1');
    expect(placeRenewer.batchKey(place)).toBe('');
    vi.spyOn(connection, 'isSlotted', 'get').mockReturnValue(true);
    expect(placeRenewer.batchKey(place)).toBe('orders');
    expect(placeRenewer.batchKey(redis().place())).toBe('orders');
  });
});

describe('the answers', () => {
  it('say for each place, in order, whether it is in line, has the lock, or is gone', async () => {
    const places = [await redis().waiting(), await redis().waiting(), await redis().waiting()];
    const batch = places.map((place) => ({ lease: place, target: place }));
    const renewing = redis().server.shared(FairServices).renewer.renew(batch, PLACE_LEASE_MS);
    await redis().last('renewPlaces').answer([1_234, 'yours', 'gone']);
    const replies = await renewing;
    expect(replies.map(({ outcome }) => outcome)).toEqual(['in line', 'yours', 'gone']);
    expect(replies[0]).toMatchObject({ nonce: 4, holderTtlMs: 1_234 });
  });

  it.each([-1, -2])(
    'tell the time to live %i of a lock from a place that is gone',
    async (ttlMs) => {
      const place = await redis().waiting();
      const renewing = redis()
        .server.shared(FairServices)
        .renewer.renew([{ lease: place, target: place }], 1);
      await redis().last('renewPlaces').answer([ttlMs]);
      expect((await renewing)[0]).toMatchObject({ outcome: 'in line', holderTtlMs: ttlMs });
    },
  );

  it('reach the places that they are about', async () => {
    const places = [await redis().waiting(), await redis().waiting(), await redis().waiting()];
    redis().server.watchdog.renewAll();
    await redis().last('renewPlaces').answer([600_000, 'yours', 'gone']);
    expect(places.map((place) => place.mayTry)).toEqual([false, true, true]);
    expect(await places[1]!.try()).toMatchObject({ outcome: 'handed over' });
    void places[2]!.try();
    expect(redis().last('join').args[0]).toBe('me:3');
  });

  it('for a place that was left meanwhile are dropped', async () => {
    const places = [await redis().waiting(), await redis().waiting()];
    redis().server.watchdog.renewAll();
    places[0]!.leave();
    await redis().last('renewPlaces').answer(['yours', 'gone']);
    expect(places.map((place) => place.mayTry)).toEqual([false, true]);
  });

  it('that the line is out of reach for good wake all: each finds out by a try of its own', async () => {
    const places = [await redis().waiting(), await redis().waiting()];
    redis().server.watchdog.renewAll();
    await redis().last('renewPlaces').fail(new RefusedError('it is on another node'));
    expect(places.map((place) => place.mayTry)).toEqual([true, true]);
  });

  it('that never come wake nobody, and the places are renewed again', async () => {
    const place = await redis().waiting();
    await vi.advanceTimersByTimeAsync(10_000);
    await redis().last('renewPlaces').fail();
    expect(place.mayTry).toBe(false);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(nonces()).toEqual([2, 3]);
  });
});
