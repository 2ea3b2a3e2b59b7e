// How many commands calls take: one to acquire, one to release, one for each nested call.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { Redis } from 'ioredis';
import { Holdfast, type Hold, type Lock } from '../../../src/index.js';
import { nextEvent } from '../../support/clients.js';
import { countCommands, recordCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { loadScripts } from '../../support/lock-commands.js';
import { uniqueName } from '../../support/unique-name.js';

let server: RedisServer;
let client: Holdfast;
let lock: Lock;
let admin: Redis;

beforeAll(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  client = await connected();
  admin = new Redis(server.url);
  await admin.ping(); // its handshake is not counted
});

afterAll(async () => {
  await client.close();
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

beforeEach(() => {
  lock = client.getLock(uniqueName());
});

async function connected(): Promise<Holdfast> {
  const one = new Holdfast({ redis: server.url });
  await one.getLock(uniqueName()).isLocked();
  return one;
}

/** How many connections are subscribed to the lock's release. */
async function listeners(): Promise<unknown> {
  const [, count] = await admin.pubsub('NUMSUB', `redisson_lock__channel:{${lock.name}}`);
  return count;
}

/** The commands that a lock may send. */
const OURS = ['EVALSHA', 'EVAL', 'SUBSCRIBE', 'UNSUBSCRIBE'];

/** The commands that clients sent meanwhile, without those that scripts ran. */
async function sent(fn: () => Promise<unknown>): Promise<string[]> {
  const commands = await recordCommands(server.url, fn);
  return commands.filter(({ byScript }) => !byScript).map(({ name }) => name);
}

const ways: [string, () => Promise<unknown>, () => Promise<unknown>][] = [
  ['lock()', () => lock.lock(), () => lock.unlock()],
  ['lock(lease)', () => lock.lock(5_000), () => lock.unlock()],
  ['tryLock()', () => lock.tryLock(), () => lock.unlock()],
  ['tryLock(wait, lease)', () => lock.tryLock(5_000, 5_000), () => lock.unlock()],
  ['tryLock({ wait })', () => lock.tryLock({ wait: 5_000 }), () => lock.unlock()],
];

it.each(ways)('an uncontended %s takes one command, and unlock() one', async (_, take, undo) => {
  expect(await sent(take)).toEqual(['EVALSHA']);
  expect(await sent(undo)).toEqual(['EVALSHA']);
});

it.each([{}, { wait: 0 }, { wait: 5_000, lease: 5_000 }])(
  'an uncontended acquire(%o) or tryAcquire() with it takes one command, and the release one',
  async (options) => {
    const { signal } = new AbortController();
    for (const call of ['acquire', 'tryAcquire'] as const) {
      let hold: Hold | undefined;
      const acquired = await sent(async () => {
        hold = await lock[call]({ ...options, signal });
      });
      expect(acquired).toEqual(['EVALSHA']);
      expect(await sent(() => hold!.release())).toEqual(['EVALSHA']);
      expect(await sent(() => hold!.release())).toEqual([]);
    }
  },
);

it('the server runs as few commands as possible for them', async () => {
  const acquired = await countCommands(server.url, () => lock.lock());
  expect(acquired).toEqual({ evalsha: 1, exists: 1, hset: 1, pexpire: 1 });
  const released = await countCommands(server.url, () => lock.unlock());
  expect(released).toEqual({ evalsha: 1, hdel: 1, publish: 1 });
});

it('withLock() takes two commands', async () => {
  expect(await sent(() => lock.withLock(() => 1))).toEqual(['EVALSHA', 'EVALSHA']);
  expect(await sent(() => lock.withLock({ wait: 0, lease: 5_000 }, () => 1))).toHaveLength(2);
});

it('a nested acquire takes one command, and its release one', async () => {
  await lock.withLock(async () => {
    expect(await sent(() => lock.withLock(() => 1))).toEqual(['EVALSHA', 'EVALSHA']);
  });
  await client.run(async () => {
    await lock.lock();
    expect(await sent(() => lock.lock())).toEqual(['EVALSHA']);
    expect(await sent(() => lock.unlock())).toEqual(['EVALSHA']);
    await lock.unlock();
  });
});

it('a nested acquire in a hold that was handed over takes one command, and its release one', async () => {
  await using hold = await lock.acquire();
  await client.detach(() =>
    hold.run(async () => {
      expect(await sent(() => lock.withLock(() => 1))).toEqual(['EVALSHA', 'EVALSHA']);
    }),
  );
});

it('a tryLock() or tryAcquire() that fails takes one command; none while its own client has the lock', async () => {
  await using other = await connected();
  const theirs = other.getLock(lock.name);
  await lock.lock();
  expect(await sent(() => theirs.tryLock())).toEqual(['EVALSHA']);
  expect(await sent(() => theirs.tryAcquire())).toEqual(['EVALSHA']);
  expect(await sent(() => lock.tryLock())).toEqual([]);
  expect(await sent(() => lock.tryAcquire())).toEqual([]);
  await lock.unlock();
});

it('an acquire that has to wait takes a try, a subscription, a try, and a try when the lock is free', async () => {
  await using other = await connected(); // with a subscriber that ends with this test
  const theirs = other.getLock(lock.name);
  for (const expected of [
    ['EVALSHA', 'SUBSCRIBE', 'EVALSHA', 'EVALSHA', 'EVALSHA'],
    ['EVALSHA', 'EVALSHA', 'EVALSHA'], // the subscription lingers
  ]) {
    await using mine = await lock.acquire();
    const commands = await sent(async () => {
      const waiting = theirs.lock();
      await nextEvent(other, 'waiting');
      await expect.poll(listeners, { timeout: 5_000 }).toBe(1);
      await sleep(200); // until the second try is over
      await mine.release();
      await waiting;
    });
    // The subscriber's connection brings some commands of ioredis.
    expect(commands.filter((name) => OURS.includes(name))).toEqual(expected);
    await theirs.unlock();
    await sleep(50); // until the client that released does not let others pass any more, for which it would subscribe
  }
});

it('extend() takes one command; reading the state of a hold takes none', async () => {
  await using hold = await lock.acquire();
  expect(await sent(() => hold.extend(60_000))).toEqual(['EVALSHA']);
  const look = (): Promise<unknown> => Promise.resolve([hold.remaining(), hold.signal.aborted]);
  expect(await sent(look)).toEqual([]);
});

it('each query of a lock takes one command', async () => {
  await using hold = await lock.acquire();
  expect(await sent(() => lock.isLocked())).toEqual(['EVALSHA']);
  expect(await sent(() => lock.remainTimeToLive())).toEqual(['EVALSHA']);
  expect(await sent(() => lock.getHoldCount())).toEqual([]); // the caller does not hold the lock
  expect(await sent(() => hold.run(() => lock.getHoldCount()))).toEqual(['HGET']);
  expect(await sent(() => hold.run(() => lock.isHeldByCurrentOwner()))).toEqual(['HGET']);
});

it('forceUnlock() takes one command, whether the lock is held or not', async () => {
  await using other = await connected();
  expect(await sent(() => lock.forceUnlock())).toEqual(['EVALSHA']);
  await other.getLock(lock.name).lock();
  expect(await sent(() => lock.forceUnlock())).toEqual(['EVALSHA']);
});

it('a call with a wrong argument takes no command', async () => {
  const refusals = [
    () => lock.lock({ signal: AbortSignal.abort() }),
    () => lock.tryLock(Number.NaN),
    () => lock.acquire({ lease: 0 }),
    () => lock.unlock(),
  ];
  const commands = await sent(async () => {
    for (const refused of refusals) await expect(refused()).rejects.toThrow();
  });
  expect(commands).toEqual([]);
});

it('1,000 locks of different names at once take one command for one, and others for up to 64 each; so do their releases', async () => {
  const names = Array.from({ length: 1_000 }, () => uniqueName());
  const locks = names.map((name) => client.getLock(name));
  expect(await sent(() => Promise.all(locks.map((each) => each.lock())))).toHaveLength(17);
  expect(await sent(() => Promise.all(locks.map((each) => each.unlock())))).toHaveLength(17);
});

it('after SCRIPT FLUSH each script takes one more command, once', async () => {
  const redis = new Redis(server.url);
  await redis.script('FLUSH');
  redis.disconnect();
  for (const once of [['EVALSHA', 'EVAL'], ['EVALSHA']]) {
    await client.run(async () => {
      expect(await sent(() => lock.lock())).toEqual(once);
      expect(await sent(() => lock.lock())).toEqual(once); // a script of its own
      expect(await sent(() => lock.unlock())).toEqual(['EVALSHA']); // the same one
      expect(await sent(() => lock.unlock())).toEqual(once);
    });
    expect(await sent(() => lock.forceUnlock())).toEqual(once);
  }
  expect(await lock.isLocked()).toBe(false);
});
