// Many acquires and releases at once go together in few script calls, and each ends as it would alone.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast, HoldfastOptions, Lock } from '../../../src/index.js';
import { connectedClient, eventsOf, nextEvent } from '../../support/clients.js';
import { eventually, inTime } from '../../support/time.js';
import { loadScripts } from '../../support/lock-commands.js';
import { Occupancy } from '../../support/occupancy.js';
import { countCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { uniqueName } from '../../support/unique-name.js';

/** In the command that sends them. */
const GATHERED = scripts.gather.sha1;
/** For a lease that needs no renewal during a test. */
const LONG: Partial<HoldfastOptions> = { lockWatchdogTimeout: 30_000 };

let server: RedisServer;
let admin: Redis;
let name: string;

beforeAll(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  admin = new Redis(server.url);
  await admin.ping();
}, 60_000);

afterAll(async () => {
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

beforeEach(() => {
  name = uniqueName();
});

function locksOf(client: Holdfast, count: number): Lock[] {
  return Array.from({ length: count }, (_, index) => client.getLock(`${name}:${index}`));
}

function acquireAll(locks: readonly Lock[]): Promise<Hold[]> {
  return Promise.all(locks.map((lock) => lock.acquire()));
}

async function keysLeft(): Promise<string[]> {
  return await admin.keys(`*${name}*`);
}

it('200 locks that are acquired in one turn and released in one take five script calls each', async () => {
  await using client = await connectedClient({ ...LONG, redis: server.url });
  const locks = locksOf(client, 200);
  let holds: Hold[] = [];
  const acquired = await countCommands(server.url, async () => {
    holds = await acquireAll(locks);
  });
  expect(acquired).toEqual({ evalsha: 5, exists: 200, hset: 200, pexpire: 200 });
  expect(await keysLeft()).toHaveLength(200);
  for (const [index, hold] of holds.entries())
    expect(await admin.hgetall(`${name}:${index}`)).toEqual({ [hold.ownerId]: '1' });
  const released = await countCommands(server.url, () =>
    Promise.all(holds.map((hold) => hold.release())),
  );
  expect(released).toEqual({ evalsha: 5, hdel: 200, publish: 200 });
  expect(await keysLeft()).toEqual([]);
});

it('a wrong key among many fails only its own call, and a held lock is waited for alone', async () => {
  await using client = await connectedClient({ ...LONG, redis: server.url });
  await using other = await connectedClient({ ...LONG, redis: server.url });
  const locks = locksOf(client, 40);
  await admin.set(`${name}:10`, 'text');
  await admin.hset(`${name}:20`, { mode: 'read', more: 1 });
  const held = await other.getLock(`${name}:30`).acquire();
  const outcomes = await Promise.allSettled(locks.map((lock) => lock.tryAcquire()));
  expect(outcomes[10]).toMatchObject({ reason: { name: 'KeyConflictError', keyType: 'string' } });
  expect(outcomes[20]).toMatchObject({ reason: { name: 'KeyConflictError', keyType: 'hash' } });
  expect(outcomes[30]).toEqual({ status: 'fulfilled', value: undefined });
  const holds = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' && outcome.value ? [outcome.value] : [],
  );
  expect(holds).toHaveLength(37);

  // The same for releases: the key of one lock holds something else by now.
  await admin.del(`${name}:5`);
  await admin.set(`${name}:5`, 'text');
  const releases = await Promise.allSettled(holds.map((hold) => hold.release()));
  const failed = releases.flatMap((outcome) =>
    outcome.status === 'rejected' ? [outcome.reason as Error] : [],
  );
  expect(failed).toEqual([expect.objectContaining({ name: 'LockLostError', lossReason: 'taken' })]);
  await held.release();
  expect((await keysLeft()).sort()).toEqual([10, 20, 5].map((index) => `${name}:${index}`));
  await admin.del(...(await keysLeft()));
});

describe('a user', () => {
  async function clientWith(...rules: string[]): Promise<Holdfast> {
    const all = ['reset', 'on', '>secret', '~*', '&*', '+@all'];
    await admin.call('ACL', 'SETUSER', 'limited', ...all, ...rules);
    const { host, port } = server;
    const redis = { host, port, username: 'limited', password: 'secret' };
    return await connectedClient({ ...LONG, redis });
  }

  it('without permission for one of the keys gets the other locks', async () => {
    await using client = await clientWith('resetkeys', '~*:[0-9]', '~*:1?', '~holdfast*');
    const outcomes = await Promise.allSettled(locksOf(client, 30).map((lock) => lock.acquire()));
    const got = outcomes.map(({ status }) => status === 'fulfilled');
    expect(got).toEqual(Array.from({ length: 30 }, (_, index) => index < 20));
    expect(outcomes[25]).toMatchObject({
      reason: {
        name: 'UnavailableError',
        lockName: `${name}:25`,
        message: expect.stringMatching(/NOPERM|permission/) as string,
      },
    });
    const holds = outcomes.flatMap((outcome) =>
      outcome.status === 'fulfilled' ? [outcome.value] : [],
    );
    await Promise.all(holds.map((hold) => hold.release()));
    expect(await keysLeft()).toEqual([]);
  });

  it.each(['pexpire', 'hset'])(
    'without %s gets an error that names it, and nothing is left',
    async (lacked) => {
      await using client = await clientWith(`-${lacked}`);
      const outcomes = await Promise.allSettled(locksOf(client, 10).map((lock) => lock.acquire()));
      for (const outcome of outcomes) {
        const message = expect.stringMatching(new RegExp(`\\b${lacked}\\b`, 'i')) as string;
        expect(outcome).toMatchObject({ reason: { name: 'UnavailableError', message } });
      }
      expect(await keysLeft()).toEqual([]);
    },
  );

  it('without permission to publish can release, and a warning says so', async () => {
    await using client = await clientWith('resetchannels');
    const holds = await acquireAll(locksOf(client, 10));
    const errors = eventsOf(client, 'error');
    await Promise.all(holds.map((hold) => hold.release()));
    expect(errors.map(({ error }) => error.message)).toEqual([
      expect.stringMatching(/cannot publish on channel redisson_lock__channel/),
    ]);
    expect(await keysLeft()).toEqual([]);
  });
});

it('a server that has forgotten its scripts receives them in full', async () => {
  await using client = await connectedClient({ ...LONG, redis: server.url });
  const holds = await acquireAll(locksOf(client, 100));
  await admin.script('FLUSH');
  const counts = await countCommands(server.url, () =>
    Promise.all(holds.map((hold) => hold.release())),
  );
  // One alone, then 64 and 35, which need the same script: the second of them is sent by its hash again.
  expect(counts).toMatchObject({ evalsha: 4, eval: 2, hdel: 100 });
  expect(await keysLeft()).toEqual([]);
});

it('a waiter for one of many locks that are released at once is woken, whatever its name', async () => {
  await using client = await connectedClient({ ...LONG, redis: server.url });
  await using other = await connectedClient({ ...LONG, redis: server.url });
  const names = ['', ':{tag}', '}', '{}', '{'].map((end) => name + end);
  const holds = await acquireAll(names.map((each) => client.getLock(each)));
  const waiting = acquireAll(names.map((each) => other.getLock(each)));
  await eventually(async () => {
    const channels = (await admin.pubsub('CHANNELS', `*${name}*`)) as string[];
    expect(channels).toHaveLength(names.length);
  });
  await sleep(100); // their tries after the subscription
  await Promise.all(holds.map((hold) => hold.release()));
  // Without a message they poll after 10 s.
  const theirs = await inTime(waiting, 5_000, 'not all of them were woken');
  await Promise.all(theirs.map((hold) => hold.release()));
});

it('a query after a release that nobody awaited finds the lock free', async () => {
  await using client = await connectedClient({ ...LONG, redis: server.url });
  const [hold, ...others] = await acquireAll(locksOf(client, 3));
  const lock = client.getLock(`${name}:0`);
  void others[0]!.release(); // another command is under way
  const released = hold!.release();
  expect(await lock.isLocked()).toBe(false);
  await released;
  const again = await lock.acquire();
  void others[1]!.release();
  const releasedAgain = again.release();
  expect(await lock.tryLock()).toBe(true);
  await releasedAgain;
  const unlocked = Promise.all([lock.unlock(), client.getLock(`${name}:3`).tryLock()]);
  expect(await lock.forceUnlock()).toBe(false);
  await unlocked;
  await client.getLock(`${name}:3`).unlock();
});

it('a client that is closed in the same turn completes its releases', async () => {
  const client = await connectedClient({ ...LONG, redis: server.url });
  const holds = await acquireAll(locksOf(client, 10));
  const released = holds.map((hold) => hold.release());
  await client.close();
  await Promise.all(released);
  expect(await keysLeft()).toEqual([]);
});

describe('a lost connection', () => {
  it.each(['loseReplyTo', 'cutAfterForwarding', 'holdBack'] as const)(
    'with gathered releases (%s): they are repeated, and no lock counts as lost',
    async (fault) => {
      await using proxy = await startProxy(server.port, server.host);
      await using client = await connectedClient({ ...LONG, redis: proxy.url });
      const lost = eventsOf(client, 'lost');
      const holds = await acquireAll(locksOf(client, 60));
      const { happened } = proxy[fault](GATHERED);
      const released = await Promise.allSettled(holds.map((hold) => hold.release()));
      await happened;
      expect(released.filter(({ status }) => status === 'rejected')).toEqual([]);
      expect(lost).toEqual([]);
      expect(await keysLeft()).toEqual([]);
    },
  );

  it.each(['loseReplyTo', 'cutAfterForwarding', 'holdBack'] as const)(
    'with gathered acquires (%s): they are found again, and held once',
    async (fault) => {
      await using proxy = await startProxy(server.port, server.host);
      await using client = await connectedClient({ ...LONG, redis: proxy.url });
      const { happened } = proxy[fault](GATHERED);
      const holds = await acquireAll(locksOf(client, 60));
      await happened;
      for (const [index, hold] of holds.entries())
        expect(await admin.hgetall(`${name}:${index}`)).toEqual({ [hold.ownerId]: '1' });
      await Promise.all(holds.map((hold) => hold.release()));
      expect(await keysLeft()).toEqual([]);
    },
  );

  it('with acquires of callers that give up leaves nothing', async () => {
    await using proxy = await startProxy(server.port, server.host);
    await using client = await connectedClient({ ...LONG, redis: proxy.url });
    const { happened } = proxy.loseReplyTo(GATHERED);
    const abort = new AbortController();
    const attempts = locksOf(client, 60).map((lock) => lock.acquire({ signal: abort.signal }));
    const settled = Promise.allSettled(attempts);
    await happened;
    abort.abort();
    const outcomes = await settled;
    expect(outcomes.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(0);
    for (const outcome of outcomes)
      if (outcome.status === 'fulfilled') await outcome.value.release();
    await eventually(async () => {
      expect(await keysLeft()).toEqual([]);
    });
  });

  it('repeatedly under load never lets two callers in, loses no lock and leaves nothing', async () => {
    await using client = await connectedClient({ ...LONG, redis: server.url });
    await using other = await connectedClient({ ...LONG, redis: server.url });
    for (const each of [client, other]) each.on('error', () => undefined);
    const lost = [eventsOf(client, 'lost'), eventsOf(other, 'lost')];
    const insides = Array.from({ length: 16 }, () => new Occupancy());
    let sections = 0;
    const endsAtMs = performance.now() + 2_000;
    const caller = async (holdfast: Holdfast, index: number): Promise<void> => {
      const lock = holdfast.getLock(`${name}:${index}`);
      while (performance.now() < endsAtMs) {
        await lock.withLock(() => insides[index]!.inside('', () => sleep(0)));
        sections++;
      }
    };
    const callers = [client, other].flatMap((holdfast) =>
      Array.from({ length: 48 }, (_, index) => caller(holdfast, index % 16)),
    );
    let kills = 0;
    while (performance.now() < endsAtMs) {
      await sleep(100);
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      kills++;
    }
    const outcomes = await Promise.allSettled(callers);
    expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([]);
    expect(insides.map(({ most }) => most)).toEqual(insides.map(() => 1));
    expect(lost).toEqual([[], []]);
    expect(sections).toBeGreaterThan(kills);
    await eventually(async () => {
      expect(await keysLeft()).toEqual([]);
    });
  }, 60_000);
});

it('the client leaves a server that has become a replica, as it does after a single call', async () => {
  await using master = await startRedis();
  const replica = new Redis(master.url);
  await using proxy = await startProxy(master.port, master.host);
  await using client = await connectedClient({ ...LONG, redis: proxy.url });
  client.on('error', () => undefined);
  await replica.call('REPLICAOF', '127.0.0.1', '1');
  const before = proxy.connections;
  const acquiring = acquireAll(locksOf(client, 20));
  await eventually(() => {
    expect(proxy.connections).toBeGreaterThan(before);
    return Promise.resolve();
  });
  await replica.call('REPLICAOF', 'NO', 'ONE');
  const holds = await acquiring;
  await Promise.all(holds.map((hold) => hold.release()));
  expect(await replica.dbsize()).toBe(0);
  replica.disconnect();
});

it('while calls are gathered, a release still wakes an acquire of its own client in line', async () => {
  await using client = await connectedClient({ ...LONG, redis: server.url });
  const lock = client.getLock(name);
  const hold = await lock.acquire();
  const waiting = nextEvent(client, 'waiting');
  const next = lock.acquire();
  await waiting;
  const [first] = await Promise.all([acquireAll(locksOf(client, 20)), hold.release()]);
  await (await next).release();
  await Promise.all(first.map((each) => each.release()));
});
