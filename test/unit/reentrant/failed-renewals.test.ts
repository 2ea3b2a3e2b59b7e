// A renewal that fails does not stop the renewals: the lock is held for as long as its holder wants it.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { eventsOf } from '../../support/clients.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { TappedRedis } from '../../support/tapped-redis.js';

const LEASE_MS = 4_500;

expectOutages();

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] }); // time passes by advance() alone
});

afterEach(() => {
  vi.useRealTimers();
});

it.each<[string, (tap: TappedRedis) => () => void]>([
  ['whose answer is late', (tap) => tap.holdAnswers('renew')],
  [
    'that is refused',
    (tap) => {
      tap.answerNext('renew', new Error('ERR not now'));
      return () => undefined;
    },
  ],
  [
    'at which the connection ends',
    (tap) => {
      tap.cut();
      return () => {
        tap.mend();
      };
    },
  ],
])('a lock is held for three more leases after a renewal %s', async (_, fail) => {
  const redis = new MemoryRedis();
  const tap = new TappedRedis(redis);
  await using client = new Holdfast({ redis: tap, lockWatchdogTimeout: LEASE_MS });
  await using other = new Holdfast({ redis });
  const [lost, renewed] = [eventsOf(client, 'lost'), eventsOf(client, 'renewed')];
  const hold = await client.getLock('a').acquire();
  await redis.advance(LEASE_MS / 3 - 50);
  const mend = fail(tap);
  await redis.advance(100);
  expect(renewed).toEqual([]);
  await redis.advance(800);
  mend();
  for (let leases = 0; leases < 3; leases++) {
    await redis.advance(LEASE_MS);
    expect(await other.getLock('a').tryAcquire()).toBeUndefined();
    expect(hold.remaining()).toBeGreaterThan(0);
    expect(renewed.length).toBeGreaterThan(2 * leases);
  }
  expect(lost).toEqual([]);
  await hold.release();
});
