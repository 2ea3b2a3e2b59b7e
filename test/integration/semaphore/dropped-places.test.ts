// A place that is dropped, since it wants more permits than there are now, says nothing of the other places of its client.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { OptionError } from '../../../src/index.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { TestSemaphore } from '../../support/weighted-locks.js';

const LEASE_MS = 3_000;

let redis: Redis;

beforeAll(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
});

afterAll(() => {
  redis.disconnect();
});

it('who waits beside a place that was dropped goes on to say that it listens', async () => {
  await using holder = newClient({ lockWatchdogTimeout: LEASE_MS });
  await using client = newClient({ lockWatchdogTimeout: LEASE_MS });
  const semaphore = new TestSemaphore(redis, 2);
  const hold = await semaphore.of(holder).acquire();
  const large = await semaphore.join(client, { permits: 2 });
  const small = await semaphore.join(client);
  const failure = rejectionOf(large.hold);
  await semaphore.of(holder).setPermits(1);
  expect(await failure).toBeInstanceOf(OptionError);
  const before = await onlyPlace(semaphore);
  const renewed = await eventually(async () => {
    const place = await onlyPlace(semaphore);
    expect(place.nonce).toBeGreaterThan(before.nonce);
    return place;
  });
  expect(renewed.isListening).toBe(true);
  await hold.release();
  await (await small.hold).release();
  await semaphore.isGone();
  await redis.del(semaphore.setKey);
});

/** What the server knows of the only place in line. */
async function onlyPlace(
  semaphore: TestSemaphore,
): Promise<{ nonce: number; isListening: boolean }> {
  const places = await redis.hvals(semaphore.keys[3]);
  expect(places).toHaveLength(1);
  const [, nonce, , , , isListening] = places[0]!.split(' ');
  return { nonce: Number(nonce), isListening: isListening === '1' };
}
