// Part 7: renewals count with a majority in time, repair masters that lost the key, and may be limited.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { eventsOf, nextEvent, rejectionOf } from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { commandOf } from '../../support/lock-commands.js';
import { RedNodes, redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(3));
const WATCHED = { lockWatchdogTimeout: 3_000 };

describe('part 7: the watchdog', () => {
  it.each([
    ['watched', undefined],
    ['fixed', 60_000],
  ])('repairs a master that lost the key of a %s hold, with its count', async (_, lease) => {
    await using client = await nodes.client(WATCHED);
    const lock = client.lock(uniqueName());
    const hold = await lock.acquire({ ...(lease !== undefined && { lease }) });
    await hold.run(async () => {
      const inner = await lock.acquire();
      await nodes.remove(lock, [1]);
      await eventually(async () => {
        expect(await nodes.owners(lock)).toEqual(Array(3).fill(hold.ownerId));
        expect(await nodes.counts(lock)).toEqual([2, 2, 2]);
      });
      await inner.release();
    });
    await hold.release();
    await nodes.nothingLeft(lock);
  });

  it('renews, extends and re-enters while the memory of the masters is full', async () => {
    await using servers = await startMasters(3);
    const full = new RedNodes(servers);
    await using client = await full.client(WATCHED);
    const lock = client.lock(uniqueName());
    const lost = eventsOf(client.holdfast, 'lost');
    await lock.withLock(async (hold) => {
      await full.ask((redis) => redis.config('SET', 'maxmemory', '1'));
      await sleep(WATCHED.lockWatchdogTimeout * 2);
      await lock.withLock(() => undefined);
      await hold.extend(5_000);
      expect(hold.remaining()).toBeGreaterThan(3_000);
      expect(lost).toEqual([]);
      await full.ask((redis) => redis.config('SET', 'maxmemory', '0'));
    });
    await full.nothingLeft(lock);
  });

  it('does not count renewals of a minority, and reports the loss in time', async () => {
    await using client = await nodes.proxied(WATCHED);
    const proxies = client.proxies.slice(0, 2);
    const lost = eventsOf(client.holdfast, 'lost');
    const lock = client.lock(uniqueName());
    const hold = await lock.acquire();
    for (const proxy of proxies) proxy.blackhole();
    let before = hold.remaining();
    while (!hold.signal.aborted) {
      await sleep(5);
      const left = hold.remaining();
      // One renewal may have been under way when the two fell silent.
      if (left > before) expect(left).toBeLessThanOrEqual(1_500);
      before = left;
    }
    expect(lost).toMatchObject([{ lossReason: 'unreachable' }]);
    for (const proxy of proxies) proxy.heal();
    await nodes.nothingLeft(lock);
  });

  it.each([0, 2])(
    'renews a lease at most %i times when maxExtensions says so',
    async (maxExtensions) => {
      await using client = await nodes.client(WATCHED);
      const renewed = eventsOf(client.holdfast, 'renewed');
      const hold = await client.lock(uniqueName(), { maxExtensions }).acquire();
      await eventually(() => {
        expect(hold.signal.aborted).toBe(true);
      });
      expect(renewed).toHaveLength(maxExtensions);
      expect(hold.signal.reason).toMatchObject({ lossReason: 'expired' });
      expect(await rejectionOf(hold.release())).toBe(hold.signal.reason);
    },
  );

  it('does not use up maxExtensions when one master reconnects', async () => {
    await using proxy = await startProxy(nodes.servers[2]!.port);
    const urls = [...nodes.urls.slice(0, 2), proxy.url];
    await using client = await nodes.client(WATCHED, urls);
    const renewed = eventsOf(client.holdfast, 'renewed');
    const hold = await client.lock(uniqueName(), { maxExtensions: 2 }).acquire();
    const startedAtMs = performance.now();
    for (let count = 0; count < 4; count++) {
      proxy.cut();
      await client.connected();
    }
    await eventually(() => {
      expect(hold.signal.aborted).toBe(true);
    });
    // Extended after a sixth of its lease at the earliest, each time.
    expect(performance.now() - startedAtMs).toBeGreaterThan(1_500 * (1 + 2 / 6) - 100);
    expect(renewed).toHaveLength(2);
  });

  it('counts a renewal as soon as most masters confirm it, even if one is silent; a master that answers later is repaired then', async () => {
    const lockWatchdogTimeout = 6_000;
    const silenceMs = lockWatchdogTimeout / 6; // shorter than the time to drop the connection, or to give up its answer
    await using client = await nodes.proxied({ lockWatchdogTimeout });
    const [proxy] = client.proxies;
    const lock = client.lock(uniqueName(), { nodeTimeout: 10_000 });
    const hold = await lock.acquire();
    await nodes.remove(lock, [0]);
    proxy!.delay({ downstreamMs: silenceMs });
    using lag = new EventLoopLag();
    await nextEvent(client.holdfast, 'renewed');
    // Counted from the sending, this long ago.
    expect(lockWatchdogTimeout - hold.remaining()).toBeLessThan(silenceMs / 2 + lag.longestMs);
    expect((await nodes.owners(lock))[0]).toBe('');
    await eventually(async () => {
      expect((await nodes.owners(lock))[0]).toBe(hold.ownerId);
    }, lockWatchdogTimeout / 3);
    await hold.release();
    await nodes.nothingLeft(lock);
  });

  it('neither renews nor repairs a released hold', async () => {
    await using proxy = await startProxy(nodes.servers[0]!.port);
    await using client = await nodes.client(WATCHED, [proxy.url, ...nodes.urls.slice(1)]);
    const lock = client.lock(uniqueName());
    const hold = await lock.acquire();
    await nodes.remove(lock, [0]);
    // The renewal finds the key gone, and its answer comes only after the release was sent to all.
    proxy.delay({ downstreamMs: 300 });
    const renewal = proxy.copyNext(commandOf('renew', lock.name));
    await renewal.happened;
    const releasing = hold.release();
    const endsAtMs = performance.now() + 1_000;
    await releasing;
    while (performance.now() < endsAtMs) {
      expect(await nodes.owners(lock)).toEqual(['', '', '']);
      await sleep(10);
    }
  });
});

describe('hold.extend()', () => {
  it('counts with a majority', async () => {
    await using client = await nodes.client(WATCHED);
    const lock = client.lock(uniqueName());
    const hold = await lock.acquire({ lease: 5_000 });
    await eventually(async () => {
      expect(await nodes.owners(lock)).toEqual(Array(3).fill(hold.ownerId));
    });
    await hold.extend(60_000);
    expect(hold.remaining()).toBeGreaterThan(30_000);
    await eventually(async () => {
      for (const leftMs of await nodes.leftMs(lock)) expect(leftMs).toBeGreaterThan(30_000);
    });
    await nodes.remove(lock, [0, 1]);
    expect(await rejectionOf(hold.extend(90_000))).toMatchObject({ code: 'LOCK_LOST' });
    expect(hold.signal.aborted).toBe(true);
    await nodes.remove(lock, [2]);
  });
});
