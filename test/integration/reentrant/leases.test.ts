// Leases last in spite of an unanswered renewal, and of nested acquisitions with other leases.
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  eventsOf,
  newClient,
  nextEvent,
  sharedConnection,
  startSharedProxy,
} from '../../support/clients.js';
import { commandOf } from '../../support/lock-commands.js';
import { uniqueName } from '../../support/unique-name.js';
import { expectShortTimes } from '../../support/expected-warnings.js';

expectShortTimes();

const redis = sharedConnection();
let name: string;

beforeEach(() => {
  name = uniqueName();
});

describe('a renewal that is never answered', () => {
  it('is repeated on a new connection before the lease ends', async () => {
    const leaseMs = 4_500; // an event loop may be blocked for a second or two while other tests run
    await using proxy = await startSharedProxy();
    await using client = newClient({ redis: proxy.url, lockWatchdogTimeout: leaseMs });
    const lost = eventsOf(client, 'lost');
    await using hold = await client.getLock(name).acquire();

    await proxy.holdBack(commandOf('renew', name), 'silence').happened;
    const endMs = performance.now() + 2 * leaseMs;
    while (performance.now() < endMs) await nextEvent(client, 'renewed');

    expect(lost).toEqual([]);
    expect(hold.signal.aborted).toBe(false);
    expect(await redis.hkeys(name)).toEqual([hold.ownerId]);
    expect(proxy.connections).toBe(4); // and two by which it is told of changes
  });
});

describe('a nested acquisition', () => {
  it('with a short lease does not shorten the outer one', async () => {
    await using client = newClient({ lockWatchdogTimeout: 20_000 });
    const lock = client.getLock(name);
    await lock.withLock(async (hold) => {
      await client.run(async () => {
        expect(await lock.tryLock(0, 200)).toBe(true);
        await sleep(400);
        expect(await redis.pttl(name)).toBeGreaterThan(10_000);
        expect(hold.remaining()).toBeGreaterThan(10_000);
        await lock.unlock();
      });
      expect(await redis.pttl(name)).toBeGreaterThan(10_000);
    });
  });

  it('with a short lease does not stop the renewal of the outer one', async () => {
    await using client = newClient({ lockWatchdogTimeout: 3_000 });
    const lock = client.getLock(name);
    await lock.withLock(async (hold) => {
      await lock.withLock({ lease: 50 }, () => nextEvent(client, 'renewed'));
      const endMs = performance.now() + 3_300;
      while (performance.now() < endMs) await nextEvent(client, 'renewed');
      expect(hold.signal.aborted).toBe(false);
    });
  });

  it('that is watched inside a fixed lease is renewed for as long as it lasts, not longer', async () => {
    await using client = newClient({ lockWatchdogTimeout: 3_000 });
    const lock = client.getLock(name);
    const outer = await lock.acquire({ lease: 3_000 });
    await outer.run(async () => {
      const inner = await lock.acquire();
      const endMs = performance.now() + 3_500;
      while (performance.now() < endMs) await nextEvent(client, 'renewed');
      await inner.release();
    });
    const renewed = eventsOf(client, 'renewed');
    expect(await nextEvent(client, 'lost')).toMatchObject({ lossReason: 'expired' });
    expect(renewed).toEqual([]);
  });
});
