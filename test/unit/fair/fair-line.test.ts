// The line of one client for one fair lock: what it listens to, and who hears what.
import { describe, expect, it, vi } from 'vitest';
import type { FairPlace } from '../../../src/queue/place.js';
import { FakeFairRedis, fakeFairRedisPerTest, HELD } from '../../support/fake-fair-redis.js';
import { settle } from '../../support/occupancy.js';

const redis = fakeFairRedisPerTest();

/** So many that stand in line. */
async function waiting(count: number, from = redis()): Promise<FairPlace[]> {
  const places: FairPlace[] = [];
  while (places.length < count) places.push(await from.waiting());
  return places;
}

function mayTry(places: readonly FairPlace[]): boolean[] {
  return places.map((place) => place.mayTry);
}

/** The owners that the last renewal named, each with whether its grants are heard. */
function renewed(): unknown[] {
  const [, , ...owners] = redis().last('renewPlaces').args;
  return owners;
}

describe('the subscriptions', () => {
  it('are made once for all of this client', async () => {
    await waiting(3);
    const { grantChannel, keys } = redis();
    expect(redis().subscriptions).toEqual([
      `subscribe ${grantChannel}`,
      `subscribe ${keys.channel}`,
    ]);
  });

  it('are not made for one who gets the lock at once', async () => {
    const place = redis().place();
    await redis().join(place, 1);
    place.leave();
    expect(redis().subscriptions).toEqual([]);
  });

  it('end a while after the last place, and no timer stays', async () => {
    const [first, second] = await waiting(2);
    first!.leave();
    await vi.advanceTimersByTimeAsync(5_000);
    second!.leave();
    expect(redis().subscriptions).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(5_000);
    const { grantChannel, keys } = redis();
    expect(redis().subscriptions.slice(2)).toEqual([
      `unsubscribe ${grantChannel}`,
      `unsubscribe ${keys.channel}`,
    ]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are made again for those who come later', async () => {
    const [first] = await waiting(1);
    first!.leave();
    await vi.advanceTimersByTimeAsync(5_000);
    const [second] = await waiting(1);
    expect(redis().subscriptions).toHaveLength(6);
    await redis().grant(2, second!);
    expect(second!.mayTry).toBe(true);
  });

  it('of two clients are for different grants', async () => {
    const other = new FakeFairRedis();
    expect(other.grantChannel).not.toBe(redis().grantChannel);
    await other.waiting();
    expect(other.subscriptions).toContain(`subscribe ${other.grantChannel}`);
  });
});

describe('once the subscription stands', () => {
  it('all places are renewed in one call, as places of a client that listens', async () => {
    await waiting(3);
    await redis().confirmSubscriptions();
    expect(redis().all('renewPlaces')).toHaveLength(1);
    expect(renewed()).toEqual(['me:1', 1, 'me:2', 1, 'me:3', 1]);
  });

  it('whoever joined before it stood, and was answered after, is renewed too', async () => {
    await waiting(1);
    const triedAtMs = performance.now();
    const late = redis().place();
    const trying = late.try();
    expect(redis().last('join').args[6]).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    await redis().confirmSubscriptions();
    await redis().last('join').answer(['other:1', 600_000, '2000']);
    await trying;
    late.wait({ holder: 'other:1', holderTtlMs: 600_000 }, triedAtMs);
    expect(renewed()).toEqual([late.ownerId, 1]);
  });

  it('anew, whoever joined before it was lost, and was answered after, is renewed too', async () => {
    await waiting(1);
    await redis().confirmSubscriptions();
    const triedAtMs = performance.now();
    const late = redis().place();
    const trying = late.try();
    expect(redis().last('join').args[6]).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    redis().reconnectSubscriber();
    await redis().confirmSubscriptions();
    await redis().last('join').answer(HELD);
    await trying;
    late.wait({ holder: 'other:1', holderTtlMs: 600_000 }, triedAtMs);
    expect(renewed()).toEqual([late.ownerId, 1]);
  });

  it('whoever joins is not renewed before it is due', async () => {
    await waiting(1);
    await redis().confirmSubscriptions();
    await vi.advanceTimersByTimeAsync(1);
    await waiting(1);
    expect(redis().all('renewPlaces')).toHaveLength(1);
  });

  it('anew, after the connection was lost, all places are renewed again', async () => {
    await waiting(2);
    await redis().confirmSubscriptions();
    redis().reconnectSubscriber();
    redis().server.watchdog.renewAll(); // the other connection was lost as well, and is back first
    expect(renewed()).toEqual(['me:1', 0, 'me:2', 0]);
    await redis().confirmSubscriptions();
    expect(redis().all('renewPlaces')).toHaveLength(3);
    expect(renewed()).toEqual(['me:1', 1, 'me:2', 1]);
  });
});

describe('a grant', () => {
  it('is heard by the one that it names, and by nobody else', async () => {
    const places = await waiting(3);
    await redis().grant(2, places[1]!);
    expect(mayTry(places)).toEqual([false, true, false]);
  });

  it('for an owner with spaces in its name is heard', async () => {
    const own = new FakeFairRedis('our service 2');
    const places = await waiting(2, own);
    expect(places[1]!.ownerId).toBe('our service 2:2');
    await own.grant(2, places[1]!);
    expect(mayTry(places)).toEqual([false, true]);
  });

  it('for an owner that begins like a hint is heard', async () => {
    const own = new FakeFairRedis('ends 1');
    const places = await waiting(1, own);
    await own.grant(1, places[0]!);
    expect(mayTry(places)).toEqual([true]);
  });

  it('in the answer to a release is heard at once, and the message that follows changes nothing', async () => {
    const places = await waiting(2);
    const released = redis().lock.release('me:7');
    expect(redis().last('handOver').args[0]).toBe('me:7');
    await redis().last('handOver').answer([1, '1 me:1', 30_000]);
    expect(await released).toBe(true);
    expect(mayTry(places)).toEqual([true, false]);
    await redis().grant(1, places[0]!);
    expect(mayTry(places)).toEqual([true, false]);
  });

  it('for somebody who is not here changes nothing', async () => {
    const places = await waiting(2);
    await redis().grant(1, { ownerId: 'me:99' });
    await redis().grant(1, { ownerId: 'me:1 ' });
    expect(mayTry(places)).toEqual([false, false]);
  });
});

it.each(['', ' ', '1', 'me:1', '1me:1', ' me:1', 'x me:1', '1  me:1', 'end 5', 'ends', '{"a":1}'])(
  'the message "%s" on the channel of the grants is ignored',
  async (payload) => {
    const places = await waiting(1);
    const { length } = redis().sent;
    await redis().publish(redis().grantChannel, payload);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(mayTry(places)).toEqual([false]);
    expect(redis().sent).toHaveLength(length);
    await redis().grant(1, places[0]!);
    expect(mayTry(places)).toEqual([true]);
  },
);

it('a message for a line that everybody left is ignored', async () => {
  const [place] = await waiting(1);
  place!.leave();
  const { length } = redis().sent;
  await redis().publish(redis().keys.channel, '0');
  await redis().publish(redis().grantChannel, 'ends 10');
  await redis().confirmSubscriptions();
  await settle();
  expect(redis().sent).toHaveLength(length);
});
