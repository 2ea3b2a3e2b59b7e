// Looking at the fleet on real servers: what a client tells of the locks of all clients, alone and in a cluster.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { newClient, nextEvent, sharedConnection } from '../../support/clients.js';
import { keepLock } from '../../support/kept-locks.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();

async function namesBy(client: Holdfast, prefix: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of client.list({ prefix })) names.push(name);
  return names.sort();
}

it('shows holder, line and tokens as the server has them', async () => {
  await using client = newClient();
  await using other = newClient({ clientId: 'job' });
  const name = uniqueName('inspected');
  const lock = other.getFencedLock(name, { fair: true });
  const before = Date.now();
  const hold = await lock.acquire();
  const waiting = nextEvent(client, 'waiting');
  const call = client.getFairLock(name).acquire();
  await waiting;
  const found = (await client.inspect(name))!;
  expect(found).toMatchObject({
    name,
    kind: 'lock',
    token: String(hold.token),
    holders: [{ ownerId: hold.ownerId, clientId: other.clientId, holdCount: 1 }],
    waiters: [{ clientId: client.clientId }],
    isCut: false,
  });
  for (const { since } of [...found.holders, ...found.waiters]) {
    expect(Number(since)).toBeGreaterThanOrEqual(before);
    expect(Number(since)).toBeLessThanOrEqual(Date.now());
  }
  expect(found.holders[0]!.leaseLeftMs).toBeGreaterThan(0);
  await hold.release();
  await (await call).release();
});

it('shows a lock that its client keeps', async () => {
  await using client = newClient({ lockWatchdogTimeout: 30_000 });
  await using other = newClient({ clientId: 'job', lockWatchdogTimeout: 30_000 });
  const name = uniqueName('kept');
  await keepLock(other, name);
  const [holder] = (await client.inspect(name))!.holders;
  expect(holder).toMatchObject({ clientId: other.clientId, state: 'kept' });
  expect(holder).not.toHaveProperty('holdCount');
  await client.getLock(name).withLock(async ({ ownerId }) => {
    expect((await client.inspect(name))!.holders).toMatchObject([{ ownerId, holdCount: 1 }]);
  });
});

it('lists the locks of a prefix among thousands of other hashes', async () => {
  await using client = newClient({ lockWatchdogTimeout: 30_000 }); // a busy machine needs time for so many
  const prefix = uniqueName('listed');
  const holds = [
    await client.getLock(`${prefix}[1]`).acquire(),
    await client.getSemaphore(`${prefix}*2`, { permits: 2 }).acquire(),
    await client.getReadWriteLock(`${prefix}\\3`).readLock().acquire(),
  ];
  const others = Array.from({ length: 5_000 }, (_, index) => `${prefix}:foreign:${index}`);
  const pipeline = redis.pipeline();
  for (const key of others) pipeline.hset(key, 'name', 'Ada');
  await pipeline.exec();
  expect(await namesBy(client, prefix)).toEqual([`${prefix}*2`, `${prefix}[1]`, `${prefix}\\3`]);
  expect(await namesBy(client, `${prefix}*`)).toEqual([`${prefix}*2`]);
  expect(await namesBy(client, `${prefix}[`)).toEqual([`${prefix}[1]`]);
  await redis.del(...others);
  for (const hold of holds) await hold.release();
});

it('finds a lock of Redisson, whose owner does not tell since when', async () => {
  await using client = newClient();
  const name = uniqueName('redisson');
  const ownerId = '8743c9c0-0795-4907-87fd-6c719a6b4586:1';
  await redis.hset(name, ownerId, '1');
  await redis.pexpire(name, 60_000);
  const found = await client.inspect(name);
  expect(found?.holders).toMatchObject([{ ownerId, holdCount: 1 }]);
  expect(found!.holders[0]!.since).toBeUndefined();
  await redis.del(name);
});

it('names the command that the user may not use', async () => {
  const user = uniqueName('user').replaceAll(':', '-');
  await redis.call('ACL', 'SETUSER', user, 'on', '>secret', '~*', '&*', '+@all', '-scan');
  const { host, port } = redis.options;
  await using client = newClient({
    redis: `redis://${user}:secret@${host ?? ''}:${String(port)}`,
  });
  await expect(client.list().next()).rejects.toMatchObject({
    code: 'REDIS_UNAVAILABLE',
    message: expect.stringMatching(/scan/i) as string,
  });
  await redis.call('ACL', 'DELUSER', user);
});

describe.skipIf(topologiesUnavailable !== undefined)('in a cluster', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await startCluster();
  }, 60_000);

  afterAll(async () => {
    await cluster[Symbol.asyncDispose]();
  });

  it('lists the locks of all masters, also for a client that was given one node as a single server', async () => {
    const node = cluster.masters[0]!.url;
    await using client = new Holdfast({ redis: node });
    await using other = new Holdfast({ redis: node });
    const prefix = uniqueName('listed');
    const names = Array.from({ length: 12 }, (_, index) => `${prefix}:${String(index)}`);
    const holds = await Promise.all(names.map((name) => other.getLock(name).acquire()));
    expect(await namesBy(client, prefix)).toEqual([...names].sort());
    const found = await client.inspect(names[0]!);
    expect(found?.holders).toMatchObject([{ ownerId: holds[0]!.ownerId }]);
    for (const hold of holds) await hold.release();
  });
});
