// How many commands it takes: one to acquire, one to release, one for each nested call.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { Redis } from 'ioredis';
import { Holdfast, type Lock } from '../../src/index.js';
import { recordCommands } from '../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { loadScripts } from '../support/lock-commands.js';
import { uniqueName } from '../support/unique-name.js';

let server: RedisServer;
let client: Holdfast;
let lock: Lock;

beforeAll(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  client = new Holdfast({ redis: server.url });
  await client.getLock(uniqueName()).isLocked(); // connected
});

afterAll(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});

beforeEach(() => {
  lock = client.getLock(uniqueName());
});

/** The commands that clients sent meanwhile, without those that scripts ran. */
async function sent(fn: () => Promise<unknown>): Promise<string[]> {
  const commands = await recordCommands(server.url, fn);
  return commands.filter(({ byScript }) => !byScript).map(({ name }) => name);
}

it('an uncontended lock() is one command, and an unlock() is one', async () => {
  expect(await sent(() => lock.lock())).toEqual(['EVALSHA']);
  expect(await sent(() => lock.unlock())).toEqual(['EVALSHA']);
});

it('an uncontended acquire() is one command, with any options, and a release is one', async () => {
  for (const options of [{}, { wait: 0 }, { wait: 5_000, lease: 5_000 }]) {
    let release!: () => Promise<void>;
    const acquired = await sent(async () => {
      const hold = await lock.acquire({ ...options, signal: new AbortController().signal });
      release = () => hold.release();
    });
    expect(acquired).toEqual(['EVALSHA']);
    expect(await sent(release)).toEqual(['EVALSHA']);
    expect(await sent(release)).toEqual([]);
  }
});

it('withLock is two commands', async () => {
  expect(await sent(() => lock.withLock(() => 1))).toEqual(['EVALSHA', 'EVALSHA']);
});

it('a nested acquire is one command, and its release is one', async () => {
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

it('a tryLock() that fails is one command', async () => {
  await lock.lock();
  expect(await sent(() => lock.tryLock())).toEqual(['EVALSHA']);
  await lock.unlock();
});

it('extend() is one command; looking at the hold is none', async () => {
  await using hold = await lock.acquire();
  expect(await sent(() => hold.extend(60_000))).toEqual(['EVALSHA']);
  const look = (): Promise<unknown> => Promise.resolve([hold.remaining(), hold.signal.aborted]);
  expect(await sent(look)).toEqual([]);
});

it('1,000 locks of different names are 1,000 commands, and as many to release them', async () => {
  const names = Array.from({ length: 1_000 }, () => uniqueName());
  const locks = names.map((name) => client.getLock(name));
  expect(await sent(() => Promise.all(locks.map((each) => each.lock())))).toHaveLength(1_000);
  expect(await sent(() => Promise.all(locks.map((each) => each.unlock())))).toHaveLength(1_000);
});

it('after SCRIPT FLUSH everything still works, by EVAL once', async () => {
  const redis = new Redis(server.url);
  await redis.script('FLUSH');
  redis.disconnect();
  expect(await sent(() => lock.lock())).toEqual(['EVALSHA', 'EVAL']);
  expect(await sent(() => lock.unlock())).toEqual(['EVALSHA', 'EVAL']);
  expect(await sent(() => lock.withLock(() => 1))).toEqual(['EVALSHA', 'EVALSHA']);
  await client.run(async () => {
    await lock.lock();
    await lock.lock();
    await lock.unlock();
    await lock.unlock();
  });
  expect(await lock.isLocked()).toBe(false);
});
