// A lock that was released at a master whose successor has missed the release: it is released there as well.
import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
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
