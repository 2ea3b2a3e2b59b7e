// Which scripts a client sends in full: none that the server knows, and each of the others once, when it is first needed.
import { Cluster, Redis } from 'ioredis';
import { expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { connectedClient, newClient } from '../../support/clients.js';
import { loadScripts } from '../../support/lock-commands.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';
import { countCommands, recordCommands } from '../../support/recorded-commands.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, startMasters, startReplicated } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

const LONG = { lockWatchdogTimeout: 30_000, commandTimeout: 10_000 };

it('clients that connect, or come back, send no script to a server that knows them', async () => {
  await using servers = await startMasters(1);
  await using proxy = await startProxy(servers[0]!.port, servers[0]!.host);
  await loadScripts(servers[0]!.url);
  const connected = Array.from({ length: 30 }, () =>
    connectedClient({ ...LONG, redis: proxy.url }),
  );
  const clients = await Promise.all(connected);
  const holds = await Promise.all(clients.map((client) => client.getLock(uniqueName()).acquire()));
  const counts = await countCommands(servers[0]!.url, async () => {
    proxy.cut();
    await expect.poll(() => clients.some(({ status }) => status !== 'ready')).toBe(true);
    await expect.poll(() => clients.every(({ status }) => status === 'ready')).toBe(true);
    await Promise.all(holds.map((hold) => hold.extend(60_000)));
  });
  expect(counts).not.toHaveProperty('eval');
  expect(Object.keys(counts).filter((name) => name.startsWith('script'))).toEqual([]);
  expect(proxy.bytesUpstream / clients.length).toBeLessThan(4_000);
  await Promise.all(clients.map((client) => client.close()));
});

it
  .skipIf(topologiesUnavailable)
  .each<[string, number, (client: Holdfast, name: string) => Promise<unknown>]>([
    ['plain', 0, (client, name) => client.getLock(name).withLock(() => undefined)],
    ['fair', 0, (client, name) => client.getFairLock(name).withLock(() => undefined)],
    ['replicated', 1, (client, name) => client.getFairLock(name).withLock(() => undefined)],
  ])(
  'a server that has forgotten all scripts receives each one once, however many callers need it: %s',
  async (_, replicas, call) => {
    await using setup = await startReplicated({ replicaCount: replicas });
    const { url } = setup.master;
    await using client = await connectedClient({ ...LONG, redis: url, replicas });
    await call(client, uniqueName());
    const admin = new Redis(url);
    await admin.script('FLUSH');
    admin.disconnect();
    const commands = await recordCommands(url, () =>
      Promise.all(Array.from({ length: 1_000 }, () => call(client, uniqueName()))),
    );
    const bodies = commands.filter(({ name }) => name === 'EVAL').map(({ args }) => args[0]);
    expect(bodies.length).toBeGreaterThan(0);
    // What replicas acknowledge has a connection of its own.
    expect(bodies.length).toBeLessThanOrEqual(new Set(bodies).size * (1 + replicas));
    expect(commands.filter(({ name }) => name === 'SCRIPT')).toEqual([]);
  },
  60_000,
);

it.skipIf(topologiesUnavailable)(
  'a node of a cluster that has forgotten all scripts receives each one once',
  async () => {
    await using servers = await startCluster({ masterCount: 3 });
    const { host, port, url } = servers.masters[0]!;
    await using client = await connectedClient({
      ...LONG,
      redis: new Cluster([{ host, port }], { lazyConnect: true }),
    });
    const commands = await recordCommands(url, () =>
      Promise.all(Array.from({ length: 300 }, () => client.getFairLock(uniqueName()).tryLock())),
    );
    const bodies = commands.filter(({ name }) => name === 'EVAL').map(({ args }) => args[0]);
    expect(bodies.length).toBeGreaterThan(0);
    expect(bodies).toHaveLength(new Set(bodies).size);
  },
  60_000,
);

it('a caller whose user may not send a script in full does not hold up the others', async () => {
  await using servers = await startMasters(1);
  const { url, host, port } = servers[0]!;
  const admin = new Redis(url);
  try {
    await admin.acl('SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all', '-eval');
    await using client = newClient({
      ...LONG,
      redis: { host, port, username: 'app', password: 'secret' },
    });
    let outcomes: PromiseSettledResult<boolean>[] = [];
    const counts = await countCommands(url, async () => {
      const names = Array.from({ length: 100 }, () => uniqueName());
      outcomes = await Promise.allSettled(names.map((name) => client.getFairLock(name).tryLock()));
    });
    expect(outcomes).toHaveLength(100);
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({
        reason: { message: expect.stringContaining('NOPERM') as string },
      });
    expect(counts['evalsha']).toBeLessThanOrEqual(200);
  } finally {
    admin.disconnect();
  }
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
