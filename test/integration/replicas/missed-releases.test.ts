// A lock that was released, or handed over, at a master whose successor has missed that: it is released or handed over there as well.
import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { type Hold, Holdfast } from '../../../src/index.js';
import { eventsOf } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { cutReplication, startMasters, startSentinel } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

interface Released {
  release(): Promise<void>;
}

/** Each takes a lock of its kind at once, or fails. */
const KINDS: Record<string, (client: Holdfast, name: string) => Promise<Released>> = {
  plain: (client, name) => client.getLock(name).acquire({ wait: 10_000 }),
  'with a lease': (client, name) => client.getLock(name).acquire({ wait: 10_000, lease: 600_000 }),
  fair: (client, name) => client.getFairLock(name).acquire({ wait: 10_000 }),
  fenced: (client, name) => client.getFencedLock(name).acquire({ wait: 10_000 }),
  'fenced and fair': (client, name) =>
    client.getFencedLock(name, { fair: true }).acquire({ wait: 10_000 }),
  'to write': (client, name) => client.getReadWriteLock(name).writeLock().acquire({ wait: 10_000 }),
  permits: (client, name) =>
    client.getSemaphore(name, { permits: 2 }).acquire({ wait: 10_000, permits: 2 }),
  several: (client, name) =>
    client
      .getMultiLock(client.getLock(name), client.getLock(`${name}:2`))
      .acquire({ wait: 10_000 }),
};

it.skipIf(topologiesUnavailable)(
  'a lock of any kind that was just released is free at a successor that has missed the release',
  async () => {
    await using setup = await startSentinel();
    const redis = { name: setup.name, sentinels: setup.sentinels };
    await using client = new Holdfast({ redis, lockWatchdogTimeout: 60_000 });
    await using rival = new Holdfast({ redis, lockWatchdogTimeout: 60_000 });
    const kinds = Object.entries(KINDS).map(([kind, acquire]) => ({
      kind,
      acquire,
      name: uniqueName(),
    }));
    const holds = await Promise.all(kinds.map(({ acquire, name }) => acquire(client, name)));
    const reading = client.getReadWriteLock(uniqueName());
    holds.push(await reading.readLock().acquire());
    const replica = new Redis(setup.replica.url);
    for (const { name } of [...kinds, reading])
      await expect.poll(() => replica.exists(name)).toBe(1);
    replica.disconnect();
    await cutReplication(setup.master);
    for (const hold of holds) await hold.release();

    await setup.failover();
    const free = await Promise.all(
      kinds.map(({ kind, acquire, name }) => acquire(rival, name).then(() => kind, String)),
    );
    expect(free).toEqual(Object.keys(KINDS));
    await rival.getReadWriteLock(reading.name).writeLock().acquire({ wait: 10_000 });
  },
  60_000,
);

it.skipIf(topologiesUnavailable)(
  'a withdrawn vote for a Redlock does not stay at a successor that has missed the release',
  async () => {
    await using setup = await startSentinel();
    await using masters = await startMasters(2);
    const { name, sentinels } = setup;
    const sources = [{ name, sentinels }, ...masters.map(({ url }) => url)];
    const members = sources.map((redis) => new Holdfast({ redis, lockWatchdogTimeout: 60_000 }));
    await Promise.all(members.map((client) => client.ping())); // all are asked for their votes
    const lockName = uniqueName();
    const lock = members[0]!.getRedLock(...members.map((client) => client.getLock(lockName)), {
      restartGuard: false, // the masters have just been started
    });
    const hold = await lock.acquire();
    const replica = new Redis(setup.replica.url);
    await expect.poll(() => replica.exists(lockName)).toBe(1);
    await cutReplication(setup.master);
    await hold.release();
    await expect.poll(() => members[0]!.getLock(lockName).isLocked()).toBe(false);

    await setup.failover();
    await expect.poll(() => replica.exists(lockName), { timeout: 10_000 }).toBe(0);
    replica.disconnect();
    await Promise.all(members.map((client) => client.close()));
  },
  60_000,
);

/** Three callers of one client have had the lock by hand-overs, the last of them has it. */
async function chain(client: Holdfast, name: string): Promise<Hold[]> {
  const ways = eventsOf(client, 'acquired');
  for (;;) {
    const lock = client.getLock(name);
    const holds = [await lock.acquire()];
    const turns = [lock.acquire(), lock.acquire()];
    await Promise.resolve(); // in line by then
    for (const turn of turns) {
      await holds.at(-1)!.release();
      holds.push(await turn);
    }
    // A busy machine may be too slow for a chain of hand-overs, which ends after 10 ms.
    if (ways.slice(-2).every(({ via }) => via === 'local')) return holds;
    await holds[2]!.release();
  }
}

it.skipIf(topologiesUnavailable)(
  'a lock that was handed over twice stays with its holder, or is free after its release, whichever of the three owners the new master has',
  async () => {
    await using setup = await startSentinel();
    const redis = { name: setup.name, sentinels: setup.sentinels };
    await using client = new Holdfast({ redis, lockWatchdogTimeout: 60_000 });
    await using rival = new Holdfast({ redis, lockWatchdogTimeout: 60_000 });
    await Promise.all([client.ping(), rival.ping()]);
    const lost = eventsOf(client, 'lost');
    await cutReplication(setup.master);
    const replica = new Redis(setup.replica.url);
    await replica.config('SET', 'replica-read-only', 'no');
    const held: { name: string; last: Hold }[] = [];
    const released: string[] = [];
    for (const index of [0, 1, 2]) {
      for (const isReleased of [false, true]) {
        const name = uniqueName();
        const holds = await chain(client, name);
        // As the replica would have it if it had learnt no more.
        await replica.hset(name, holds[index]!.ownerId, 1);
        await replica.pexpire(name, 60_000);
        if (!isReleased) held.push({ name, last: holds[2]! });
        else await holds[2]!.release().then(() => released.push(name));
      }
    }

    await setup.failover();
    for (const name of released) await rival.getLock(name).acquire({ wait: 10_000 });
    for (const { name, last } of held) {
      await expect.poll(() => replica.hkeys(name), { timeout: 10_000 }).toEqual([last.ownerId]);
      expect(last.remaining()).toBeGreaterThan(30_000);
      await last.release();
      expect(await replica.exists(name)).toBe(0);
    }
    expect(lost).toEqual([]);
    replica.disconnect();
  },
  60_000,
);
