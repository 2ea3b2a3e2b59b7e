// Sentinel: locks follow the master, and losses in the failover are reported.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { eventsOf, nextEvent } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { getIn } from '../../support/failovers.js';
import {
  cutReplication,
  startSentinel,
  type SentinelSetup,
} from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

describe.skipIf(topologiesUnavailable)('a client of Sentinel', () => {
  function connect({ name, sentinels }: SentinelSetup, lockWatchdogTimeout = 12_000): Holdfast {
    return new Holdfast({ redis: { name, sentinels }, lockWatchdogTimeout, wait: Infinity });
  }

  it('keeps a replicated lock over a failover, wakes its waiters, and continues to lock', async () => {
    await using setup = await startSentinel();
    // A waiter polls only after 20 s, which is also the least that remains of the holder's lease.
    await using holder = connect(setup, 30_000);
    await using waiter = connect(setup, 60_000);
    const lost = eventsOf(holder, 'lost');
    const lock = holder.getLock(uniqueName());
    const hold = await lock.acquire();
    const waiting = nextEvent(waiter, 'waiting');
    const theirs = waiter.getLock(lock.name).acquire();
    await waiting;
    const replica = new Redis(setup.replica.url);
    await expect.poll(() => replica.exists(lock.name)).toBe(1);
    replica.disconnect();

    await setup.failover();
    await nextEvent(holder, 'renewed'); // on the new master
    expect(hold.remaining()).toBeGreaterThan(0);
    const master = new Redis(setup.replica.url);
    await expect
      .poll(() => master.pubsub('CHANNELS', `*${lock.name}*`), { timeout: 15_000 })
      .toHaveLength(1);
    master.disconnect();
    await sleep(300); // the waiter has polled once more since it listens there
    const releasedAtMs = performance.now();
    await hold.release();
    const next = await theirs;
    expect(performance.now() - releasedAtMs).toBeLessThan(10_000);
    await next.release();
    expect(lost).toEqual([]);
    await lock.withLock(() => 1);
  }, 60_000);

  it('loses a hold that the replica does not have at about the time another client acquires the lock', async () => {
    await using setup = await startSentinel();
    await using holder = connect(setup, 30_000); // the next renewal is 10 s away
    await using rival = connect(setup, 30_000);
    const lock = holder.getLock(uniqueName());
    await rival.getLock(lock.name).isLocked();
    await cutReplication(setup.master);
    const hold = await lock.acquire();
    const lost = nextEvent(holder, 'lost').then(() => performance.now());

    await setup.master.kill();
    await getIn(rival.getLock(lock.name));
    const rivalInAtMs = performance.now();
    expect((await lost) - rivalInAtMs).toBeLessThan(2_000);
    expect(hold.signal.aborted).toBe(true);
  }, 60_000);

  it('whose connection is lost while no Sentinel is reachable reconnects when one is', async () => {
    await using setup = await startSentinel();
    const { host, port } = setup.sentinels[0]!;
    await using sentinel = await startProxy(port, host);
    const sentinels = [{ host, port: sentinel.port }];
    const { name } = setup;
    await using client = new Holdfast({ redis: { name, sentinels, updateSentinels: false } });
    const lock = client.getLock(uniqueName());
    await lock.withLock(() => 1);
    const killer = new Redis(setup.master.url);
    for (let times = 0; times < 2; times++) {
      sentinel.refuse();
      const failed = nextEvent(client, 'error');
      await killer.call('client', 'KILL', 'TYPE', 'normal');
      expect((await failed).error.message).toContain('no Sentinel can be reached');
      await sentinel.accept();
      await lock.withLock(() => 1);
    }
    killer.disconnect();
  });

  it('works as well when it was given an instance', async () => {
    await using setup = await startSentinel();
    const redis = new Redis({ name: setup.name, sentinels: setup.sentinels });
    await using client = new Holdfast({ redis });
    await client.getLock(uniqueName()).withLock(() => 1);
    redis.disconnect();
  });
});
