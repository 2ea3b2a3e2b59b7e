// A holder whose key goes before its time learns it at once, and not by its next renewal, which is ten seconds away.
import { Cluster, Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import type { Hold, Holdfast, Lock } from '../../../src/index.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { SlotMover } from '../../support/cluster.js';
import { eventsOf, newClient, nextEvent, sharedConnection } from '../../support/clients.js';
import { getIn } from '../../support/failovers.js';
import { type RedisServer, startRedis, topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, startMasters, startSentinel } from '../../support/redis-topologies.js';
import { EventLoopLag, eventually, inTime, sleep } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

const long = { lockWatchdogTimeout: 30_000 };
/** A hold that is not told waits for a renewal: up to ten seconds. */
const SOON_MS = 3_000;
/** After so long the server tells of a hold. */
const YOUNG_MS = 1_000;

const redis = sharedConnection();

/** Resolves with the reason for which the hold was lost; rejects if that takes as long as the next renewal. */
function lossOf({ signal }: Pick<Hold, 'signal'>, limitMs = SOON_MS): Promise<unknown> {
  const aborted = new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener('abort', () => {
      resolve(signal.reason);
    });
  });
  return inTime(aborted, limitMs, 'the holder was not told');
}

const KINDS: Record<string, (client: Holdfast, name: string) => Promise<Pick<Hold, 'signal'>>> = {
  plain: (client, name) => client.getLock(name).acquire(),
  fair: (client, name) => client.getFairLock(name).acquire(),
  fenced: (client, name) => client.getFencedLock(name).acquire(),
  'read lock': (client, name) => client.getReadWriteLock(name).readLock().acquire(),
  'write lock': (client, name) => client.getReadWriteLock(name).writeLock().acquire(),
  permit: (client, name) => client.getSemaphore(name, { permits: 2 }).acquire(),
};

it.each(Object.entries(KINDS))('a holder (%s) whose key is deleted', async (_, acquire) => {
  await using client = newClient(long);
  const name = uniqueName();
  const hold = await acquire(client, name);
  await sleep(YOUNG_MS);
  await redis.del(name, new LockKeys(name).leases);
  expect(await lossOf(hold)).toMatchObject({ lossReason: 'deleted' });
});

it('a holder that another client forces out', async () => {
  await using client = newClient(long);
  await using other = newClient(long);
  const name = uniqueName();
  const hold = await client.getLock(name).acquire();
  await sleep(YOUNG_MS);
  await other.getLock(name).forceUnlock();
  expect(await lossOf(hold)).toMatchObject({ lossReason: 'forced' });
});

it('a holder whose server is flushed, in another database than the first, with a key prefix', async () => {
  await using server = await startRedis();
  await using client = newClient({
    redis: { ...addressOf(server), db: 3 },
    keyPrefix: 'a:',
    ...long,
  });
  const hold = await client.getLock(uniqueName()).acquire();
  await sleep(YOUNG_MS);
  const admin = new Redis(server.url);
  await admin.flushall();
  admin.disconnect();
  expect(await lossOf(hold)).toMatchObject({ lossReason: 'deleted' });
});

it('a holder whose key is evicted from a full memory', async () => {
  await using server = await startRedis();
  await using client = newClient({ redis: server.url, ...long });
  const name = uniqueName();
  const hold = await client.getLock(name).acquire();
  await sleep(YOUNG_MS);
  const admin = new Redis(server.url);
  await admin.config('SET', 'maxmemory-policy', 'allkeys-random');
  await admin.config('SET', 'maxmemory', '3mb');
  const lost = lossOf(hold);
  while ((await admin.exists(name)) > 0) await admin.set(uniqueName(), 'x'.repeat(100_000));
  admin.disconnect();
  expect(await lost).toMatchObject({ lossReason: 'deleted' });
});

it.each(['hears', 'reads'])(
  'after the connection that %s was killed, by the next one',
  async (which) => {
    await using server = await startRedis();
    await using client = newClient({ redis: server.url, ...long });
    const name = uniqueName();
    const hold = await client.getLock(name).acquire();
    await sleep(YOUNG_MS);
    const admin = new Redis(server.url);
    const list = String(await admin.client('LIST')).split('\n');
    const id = /id=(\d+)/.exec(
      list.find((each) =>
        which === 'hears' ? each.includes(' sub=2 ') : / flags=[A-Za-z]*t/.test(each),
      )!,
    )![1]!;
    await admin.client('KILL', 'ID', id);
    await admin.del(name);
    admin.disconnect();
    expect(await lossOf(hold)).toMatchObject({ lossReason: 'deleted' });
  },
);

it('a server that has room for one key in its table of tracked keys loses no lock and tells all losses', async () => {
  await using server = await startRedis({ args: ['--tracking-table-max-keys', '1'] });
  await using client = newClient({ redis: server.url, ...long });
  const lost = eventsOf(client, 'lost');
  const names = Array.from({ length: 20 }, () => uniqueName());
  const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
  await sleep(YOUNG_MS + 500);
  expect(lost).toEqual([]);
  const admin = new Redis(server.url);
  await admin.del(names);
  admin.disconnect();
  await Promise.all(holds.map((hold) => lossOf(hold)));
});

it('a holder whose server has forgotten all scripts', async () => {
  await using server = await startRedis();
  await using client = newClient({ redis: server.url, ...long });
  const name = uniqueName();
  const hold = await client.getLock(name).acquire();
  await sleep(YOUNG_MS);
  await using admin = adminOf(server);
  await admin.script('FLUSH');
  await admin.del(name);
  expect(await lossOf(hold)).toMatchObject({ lossReason: 'deleted' });
});

it('a flush of another database loses nothing, and what is deleted after it is told', async () => {
  await using server = await startRedis();
  await using client = newClient({ redis: server.url, ...long });
  const lost = eventsOf(client, 'lost');
  const names = Array.from({ length: 20 }, () => uniqueName());
  const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
  await sleep(YOUNG_MS);
  await using admin = adminOf(server);
  await admin.select(5);
  await admin.set('x', '1');
  await admin.flushdb();
  await sleep(500);
  expect(lost).toEqual([]);
  await admin.select(0);
  await admin.del(names);
  await Promise.all(holds.map((hold) => lossOf(hold)));
});

it('a stranger who writes to the key without a pause for three leases loses nothing, and the renewals are in time', async () => {
  await using server = await startRedis();
  await using client = newClient({ redis: server.url, lockWatchdogTimeout: 1_500 });
  const name = uniqueName();
  const [errors, renewed] = [eventsOf(client, 'error'), eventsOf(client, 'renewed')];
  const hold = await client.getLock(name).acquire();
  await using admin = adminOf(server);
  let writes = 0;
  const endsAtMs = performance.now() + 3 * 1_500;
  while (performance.now() < endsAtMs) {
    const pipeline = admin.pipeline();
    for (let times = 0; times < 100; times++) pipeline.hset(name, 'stranger', String(writes++));
    await pipeline.exec();
    await sleep(5);
  }
  expect(writes / 4.5).toBeGreaterThan(1_000);
  expect(hold.signal.aborted).toBe(false);
  expect(hold.remaining()).toBeGreaterThan(500);
  expect(renewed.length).toBeGreaterThanOrEqual(7);
  await admin.hdel(name, hold.ownerId);
  expect(await lossOf(hold)).toMatchObject({ lossReason: 'taken' });
  expect(errors).toEqual([]);
  await admin.del(name);
}, 30_000);

it('a holder whose event loop was blocked while its key was deleted', async () => {
  await using server = await startRedis();
  await using client = newClient({ redis: server.url, ...long });
  const name = uniqueName();
  const hold = await client.getLock(name).acquire();
  await sleep(YOUNG_MS);
  await using admin = adminOf(server);
  const deleted = admin.del(name);
  await sleep(0);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4_000);
  expect(await lossOf(hold)).toMatchObject({ lossReason: 'deleted' });
  await deleted;
}, 20_000);

it('ten thousand holders of a server that is flushed', async () => {
  await using server = await startRedis();
  await using client = newClient({ redis: server.url, ...long });
  const lost = eventsOf(client, 'lost');
  const names = Array.from({ length: 10_000 }, () => uniqueName());
  await Promise.all(names.map((name) => client.getLock(name).acquire()));
  await sleep(3 * YOUNG_MS);
  await using admin = adminOf(server);
  using lag = new EventLoopLag();
  const beganMs = performance.now();
  await admin.flushall();
  await eventually(() => {
    expect(lost).toHaveLength(10_000);
  });
  const tookMs = performance.now() - beganMs;
  console.log(
    `10,000 holders were told within ${tookMs.toFixed(0)} ms; the longest turn took ${lag.longestMs.toFixed(0)} ms`,
  );
}, 60_000);

describe('a Redlock that another client forces out', () => {
  it.each([
    ['on servers that tell of changes', ''],
    ['on servers that do not permit it', '-client'],
  ])('%s', async (_, denied) => {
    await using masters = await startMasters(3);
    for (const master of masters) {
      await using admin = adminOf(master);
      const rules = ['on', '>secret', '~*', '&*', '+@all', ...(denied === '' ? [] : [denied])];
      await admin.call('ACL', 'SETUSER', 'app', ...rules);
    }
    const userOf = (master: RedisServer): object => ({
      redis: { ...addressOf(master), username: 'app', password: 'secret' },
      ...long,
    });
    const clients = masters.map((master) => newClient(userOf(master)));
    const others = masters.map((master) => newClient(userOf(master)));
    const name = uniqueName();
    const redLockOf = (members: readonly Holdfast[]): Lock =>
      members[0]!.getRedLock(...members.map((member) => member.getLock(name)), {
        nodeTimeout: 1_000,
        restartGuard: false,
      });
    const hold = await redLockOf(clients).acquire();
    await sleep(YOUNG_MS);
    expect(await redLockOf(others).forceUnlock()).toBe(true);
    expect(await lossOf(hold)).toMatchObject({ lossReason: 'forced' });
    await sleep(500);
    for (const master of masters) {
      await using admin = adminOf(master);
      expect(await admin.exists(name)).toBe(0);
    }
    await Promise.all([...clients, ...others].map((client) => client.close()));
  });
});

it('a holder of a permit that is put out alone', async () => {
  await using client = newClient(long);
  await using other = newClient(long);
  const name = uniqueName();
  const semaphore = client.getSemaphore(name, { permits: 2 });
  const [hold, beside] = [await semaphore.acquire(), await semaphore.acquire()];
  await sleep(YOUNG_MS);
  expect(await other.releaseOwner(name, 'semaphore', hold.ownerId)).toBe(true);
  expect(await lossOf(hold)).toMatchObject({ lossReason: 'forced' });
  expect(beside.signal.aborted).toBe(false);
  await beside.release();
});

it('a user without permission for CLIENT holds locks as before, without an error', async () => {
  await using server = await startRedis();
  const admin = new Redis(server.url);
  await admin.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all', '-client');
  await using client = newClient({
    redis: { ...addressOf(server), username: 'app', password: 'secret' },
    lockWatchdogTimeout: 6_000,
  });
  const [errors, renewed] = [eventsOf(client, 'error'), nextEvent(client, 'renewed')];
  const name = uniqueName();
  const hold = await client.getLock(name).acquire();
  await renewed;
  await admin.del(name);
  admin.disconnect();
  expect(await lossOf(hold)).toMatchObject({ lossReason: 'deleted' });
  expect(errors).toEqual([]);
});

describe.skipIf(topologiesUnavailable)('in groups of servers', () => {
  it('a holder in a cluster, also when its slot has moved', async () => {
    await using servers = await startCluster();
    await using mover = await SlotMover.of(servers.masters);
    await using client = newClient({ redis: clusterOf(servers.nodes), ...long });
    const [errors, lost] = [eventsOf(client, 'error'), eventsOf(client, 'lost')];
    const names = Array.from({ length: 6 }, () => uniqueName());
    const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
    await sleep(YOUNG_MS);
    const moved = await mover.slotOf(names[0]!);
    await mover.move(moved);
    await sleep(YOUNG_MS);
    expect(lost).toEqual([]);
    for (const [index, name] of names.entries()) {
      const home = await mover.home(await mover.slotOf(name));
      await home.del(name);
      expect(await lossOf(holds[index]!)).toMatchObject({ lossReason: 'deleted' });
    }
    expect(errors).toEqual([]);
  }, 60_000);

  const oneKey: [string, (client: Holdfast, name: string) => Promise<Hold>][] = [
    ['plain', (client, name) => client.getLock(name).acquire()],
    ['fair', (client, name) => client.getFairLock(name).acquire()],
    ['fenced', (client, name) => client.getFencedLock(name).acquire()],
  ];
  it.each(oneKey)(
    'a holder (%s) whose slot is open, which is no reason to lose the lock',
    async (_, acquire) => {
      await using servers = await startCluster();
      await using mover = await SlotMover.of(servers.masters);
      await using client = newClient({
        redis: clusterOf(servers.nodes),
        lockWatchdogTimeout: 6_000,
      });
      const [errors, renewals] = [eventsOf(client, 'error'), eventsOf(client, 'renewed')];
      const name = uniqueName();
      const hold = await acquire(client, name);
      const slot = await mover.slotOf(name);
      const home = await mover.home(slot);
      await mover.begin(slot);
      await sleep(7_000);
      expect(hold.signal.aborted).toBe(false);
      expect(renewals.length).toBeGreaterThanOrEqual(2);
      expect(errors).toEqual([]);
      await home.del(name);
      expect(await lossOf(hold, 1_000)).toMatchObject({ lossReason: 'deleted' });
    },
    60_000,
  );

  it('a holder by Sentinel after a failover that it survived', async () => {
    await using setup = await startSentinel();
    const { name, sentinels } = setup;
    await using client = newClient({ redis: { name, sentinels }, ...long });
    const lock = client.getLock(uniqueName());
    const hold = await getIn(lock);
    await sleep(YOUNG_MS);
    const replica = new Redis(setup.replica.url);
    await expect.poll(() => replica.exists(lock.name)).toBe(1);
    const renewed = nextEvent(client, 'renewed');
    await setup.failover();
    await renewed;
    await sleep(2 * YOUNG_MS);
    expect(hold.signal.aborted).toBe(false);
    await replica.del(lock.name);
    replica.disconnect();
    expect(await lossOf(hold)).toMatchObject({ lossReason: 'deleted' });
  }, 60_000);
});

/** A connection of an operator's own. */
function adminOf({ url }: RedisServer): Redis & AsyncDisposable {
  const admin = new Redis(url);
  return Object.assign(admin, {
    [Symbol.asyncDispose]: () => {
      admin.disconnect();
      return Promise.resolve();
    },
  });
}

function addressOf({ host, port }: { host: string; port: number }): { host: string; port: number } {
  return { host, port };
}

function clusterOf(nodes: readonly { host: string; port: number }[]): Cluster {
  return new Cluster(nodes.map(addressOf), { lazyConnect: true });
}
