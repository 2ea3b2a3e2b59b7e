// A server that knows none of the scripts, as after a restart or a failover: whoever connects makes them known.
import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { newClient } from '../../support/clients.js';
import { countCommands } from '../../support/recorded-commands.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

it('is not sent a script in full, however many call at once', async () => {
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

it('is sent what it has forgotten in full', async () => {
  await using servers = await startMasters(1);
  const { url } = servers[0]!;
  await using client = newClient({ redis: url });
  const lock = client.getLock(uniqueName());
  await lock.withLock(() => undefined);
  const admin = new Redis(url);
  await admin.script('FLUSH');
  admin.disconnect();
  const counts = await countCommands(url, () => lock.withLock(() => undefined));
  expect(counts).toMatchObject({ evalsha: 2, eval: 2 });
});
