// A server without the scripts, as after a restart or a failover: each client loads them when it connects.
import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { newClient } from '../../support/clients.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';
import { countCommands } from '../../support/recorded-commands.js';
import { startMasters } from '../../support/redis-topologies.js';
import { settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

it('the server receives no script in full, however many calls come at once', async () => {
  await using servers = await startMasters(1);
  const { url } = servers[0]!;
  await using client = newClient({ redis: url });
  const counts = await countCommands(url, async () => {
    const names = Array.from({ length: 50 }, () => uniqueName());
    await Promise.all(names.map((name) => client.getLock(name).withLock(() => undefined)));
  });
  expect(counts['eval']).toBeUndefined();
  expect(counts).toMatchObject({ hset: 50, hdel: 50 });
});

it('a server without the script that forces a write lock, but with the hand-over, still lets the next caller in at once', async () => {
  await using servers = await startMasters(1);
  const { url } = servers[0]!;
  const options = { redis: url, lockWatchdogTimeout: 30_000 };
  await using one = newClient(options);
  await using two = newClient(options);
  const admin = new Redis(url);
  try {
    const lock = new TestReadWriteLock(admin);
    await lock.writeLock(one).acquire();
    const { hold } = await lock.join(two, 'read');
    await admin.script('FLUSH');
    await admin.script('LOAD', scripts.weightedHandOver.source);
    expect(await lock.writeLock(one).forceUnlock()).toBe(true);
    // A third of the lease if it is left to the renewal of the place.
    expect(await settledWithin(hold, 5_000)).toMatchObject({ lockName: lock.name });
  } finally {
    admin.disconnect();
  }
});
