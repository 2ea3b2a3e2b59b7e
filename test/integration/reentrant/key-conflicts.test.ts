// Another value at the key of a lock: the error names the key and its type.
import { Redis } from 'ioredis';
import { beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, KeyConflictError, type Lock } from '../../../src/index.js';
import {
  connectedClient,
  newClient,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { RedNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
let name: string;

beforeEach(() => {
  name = uniqueName();
});

/** The errors of the ways to acquire, which are all the same. */
async function conflictOf(lock: Lock): Promise<KeyConflictError> {
  const calls = [() => lock.lock(), () => lock.tryLock(), () => lock.acquire({ wait: 5_000 })];
  const errors = await Promise.all(calls.map((call) => rejectionOf(call())));
  for (const error of errors) expect(error).toBeInstanceOf(KeyConflictError);
  expect(new Set(errors.map(String)).size).toBe(1);
  return errors[0] as KeyConflictError;
}

describe('at the key of the lock', () => {
  it.each([
    [
      'a string',
      'string',
      ['SET', 'text'],
      'it is a string, as redlock and SET NX write, and not a lock',
    ],
    ['a list', 'list', ['RPUSH', 'a'], 'it is a list, and not a lock'],
    [
      'a sorted set',
      'zset',
      ['ZADD', '1', 'a'],
      'it is a sorted set, as a semaphore of redis-semaphore is, and not a lock',
    ],
    ['a hash of something else', 'hash', ['HSET', 'f', 'v'], 'it is a hash, and not a lock'],
    [
      'Redisson’s read-write lock',
      'hash',
      ['HSET', 'mode', 'read', 'c4d5:1', '1'],
      'it is a read-write lock of Redisson, and not a lock',
    ],
    [
      'a semaphore',
      'hash',
      ['HSET', 'capacity', '3', 'used', '1', 'web-1-4711-92a65ee2410e:1', '1'],
      'it is a semaphore of holdfast, and not a lock',
    ],
    [
      'a read-write lock',
      'hash',
      ['HSET', 'capacity', '2147483648', 'used', '1', 'web-1-4711-92a65ee2410e:1', '1'],
      'it is a read-write lock of holdfast, and not a lock',
    ],
    [
      'a large hash',
      'hash',
      ['HSET', ...Array.from({ length: 2_000 }, (_, i) => `${i}:1`)],
      'it is a hash, and not a lock',
    ],
  ])('%s', async (_title, keyType, [command, ...args], what) => {
    const key = `${name}:prefixed`;
    await redis.call(command!, key, ...args);
    // Its commands may take up to a third of this.
    await using client = newClient({ keyPrefix: `${name}:`, lockWatchdogTimeout: 30_000 });
    for (const lock of [client.getLock('prefixed'), client.getFairLock('prefixed')]) {
      const error = await conflictOf(lock);
      expect(error.message).toBe(
        `lock "prefixed": the key "${key}" is in the way: ${what}; choose another name or keyPrefix`,
      );
      expect(error).toMatchObject({ key, keyType, lockName: 'prefixed' });
    }
    expect(await redis.type(key)).toBe(keyType);
    await redis.del(key);
  });
});

describe('beside a fair lock', () => {
  it.each([
    ['line', 'it is a string, and not the line for the lock'],
    ['places', 'it is a string, and not the places in the line for the lock'],
  ])('its %s', async (what, words) => {
    await using holder = newClient({ lockWatchdogTimeout: 30_000 });
    await using client = newClient();
    await using hold = await holder.getLock(name).acquire();
    const key = `holdfast_${what}:{${name}}`;
    await redis.set(key, 'text');
    const lock = client.getFairLock(name);
    const error = await rejectionOf(lock.acquire({ wait: 5_000 }));
    expect(error).toBeInstanceOf(KeyConflictError);
    expect((error as Error).message).toContain(`the key "${key}" is in the way: ${words};`);
    expect(error).toMatchObject({ key, keyType: 'string' });
    await redis.del(key);
    expect(hold.remaining()).toBeGreaterThan(0);
  });
});

it('on a Redlock the error also names the master', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await using client = await nodes.client();
  const lock = client.lock(name);
  await nodes.ask((each) => each.set(lock.name, 'text'));
  const error = (await rejectionOf(lock.acquire({ wait: 5_000 }))) as KeyConflictError;
  expect(error.message).toMatch(/the key ".*" on [\d.]+:\d+ is in the way: it is a string/);
});

it('a user who may not call TYPE gets the error without the key', async () => {
  await using server = await startRedis();
  const admin = new Redis(server.url);
  await admin.call('ACL', 'SETUSER', 'app', 'on', '>pw', '~*', '&*', '+@all', '-type');
  await admin.set('taken', 'text');
  const { host, port } = server;
  await using client = await connectedClient({
    redis: { host, port, username: 'app', password: 'pw' },
  });
  const error = await conflictOf(client.getLock('taken'));
  expect(error.message).toBe(
    'lock "taken": its key, or one beside it, holds something that is not a lock; choose another name or keyPrefix',
  );
  expect(error.key).toBeUndefined();
  admin.disconnect();
});

it('the error costs one query of the types, and other calls cost none', async () => {
  await using server = await startRedis();
  await using client = new Holdfast({ redis: server.url });
  await using other = await connectedClient({ redis: server.url });
  const lock = client.getLock('a');
  const types = async (call: () => Promise<unknown>): Promise<number> => {
    const sent = await recordCommands(server.url, call);
    return sent.filter((command) => command.name === 'TYPE').length;
  };
  expect(await types(() => lock.withLock(() => other.getLock('a').tryLock()))).toBe(0);
  const admin = new Redis(server.url);
  await admin.set('a', 'text');
  expect(await types(() => rejectionOf(lock.lock()))).toBe(2);
  admin.disconnect();
});

it('a hold whose key became something else is lost as taken, as before', async () => {
  await using client = newClient();
  const hold = await client.getLock(name).acquire();
  await redis.set(name, 'text');
  expect(await rejectionOf(hold.release())).toMatchObject({
    code: 'LOCK_LOST',
    lossReason: 'taken',
  });
  expect(await redis.get(name)).toBe('text');
  await redis.del(name);
});
