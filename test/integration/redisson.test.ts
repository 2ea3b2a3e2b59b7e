// The data is Redisson's: raw commands, as Redisson's RLock sends them, exclude and wake holdfast, and the other way round.
import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, inject, it } from 'vitest';
import type { Holdfast } from '../../src/index.js';
import { newClient, nextEvent } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { uniqueName } from '../support/unique-name.js';

// From RedissonLock: tryLockInnerAsync and unlockInnerAsync, as far as they matter for the data.
const LOCK = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then
  redis.call('hincrby', KEYS[1], ARGV[2], 1);
  redis.call('pexpire', KEYS[1], ARGV[1]);
  return nil;
end;
return redis.call('pttl', KEYS[1]);`;
const UNLOCK = `if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end;
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0;
else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end;`;

let redis: Redis;
let client: Holdfast;
let name: string;
const thread = `${randomUUID()}:52`;

beforeEach(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
  client = newClient();
  name = uniqueName();
});

afterEach(async () => {
  await client.close();
  redis.disconnect();
});

function javaLock(): Promise<unknown> {
  return redis.eval(LOCK, 1, name, 30_000, thread);
}

function javaUnlock(): Promise<unknown> {
  return redis.eval(UNLOCK, 2, name, `redisson_lock__channel:{${name}}`, '0', 30_000, thread);
}

it('Redisson sees what holdfast holds: a hash with `<uuid>:<n>` -> count, and its lease', async () => {
  const hold = await client.getLock(name).acquire({ lease: 20_000 });
  expect(await redis.hgetall(name)).toEqual({ [hold.ownerId]: '1' });
  expect(hold.ownerId).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+$/);
  await hold.run(async () => {
    const nested = await client.getLock(name).acquire();
    expect(await redis.hgetall(name)).toEqual({ [hold.ownerId]: '2' });
    await nested.release();
  });
  const ttlMs = (await javaLock()) as number;
  expect(ttlMs).toBeGreaterThan(15_000);
  expect(ttlMs).toBeLessThanOrEqual(20_000);
  await hold.release();
  expect(await javaLock()).toBeNull();
  expect(await javaUnlock()).toBe(1);
});

it('Redisson is woken by holdfast: "0" on redisson_lock__channel:{name}, once per release', async () => {
  const subscriber = new Redis(inject('redisUrl'));
  const messages: string[][] = [];
  subscriber.on('message', (...message: string[]) => messages.push(message));
  await subscriber.subscribe(`redisson_lock__channel:{${name}}`);
  await client.getLock(name).withLock(() => 1);
  await client.getLock(name).lock();
  await client.getLock(name).forceUnlock();
  await eventually(() => {
    const message = [`redisson_lock__channel:{${name}}`, '0'];
    expect(messages).toEqual([message, message]);
  });
  await expect(client.getLock(name).unlock()).rejects.toMatchObject({ code: 'LOCK_LOST' });
  subscriber.disconnect();
});

it('a name with braces has them in its channel as Redisson has', async () => {
  name = `${name}{tag}`;
  const subscriber = new Redis(inject('redisUrl'));
  const heard = new Promise((resolve) => subscriber.on('message', resolve));
  await subscriber.subscribe(`redisson_lock__channel:${name}`);
  await client.getLock(name).withLock(() => 1);
  expect(await heard).toBe(`redisson_lock__channel:${name}`);
  subscriber.disconnect();
});

it('holdfast waits for Redisson, names its thread, and is woken by it', async () => {
  await javaLock();
  const lock = client.getLock(name);
  expect(await lock.tryLock()).toBe(false);
  expect(await lock.isLocked()).toBe(true);
  expect(await lock.remainTimeToLive()).toBeGreaterThan(29_000);
  await expect(lock.acquire({ wait: 20 })).rejects.toMatchObject({ holder: thread });
  const waiting = nextEvent(client, 'waiting');
  const mine = lock.acquire();
  expect(await waiting).toMatchObject({ holder: thread });
  await eventually(async () => {
    expect(await redis.pubsub('CHANNELS', `*${name}*`)).toHaveLength(1);
  });
  const before = performance.now();
  await javaUnlock();
  const hold = await mine;
  expect(performance.now() - before).toBeLessThan(1_000);
  await hold.release();
});

it('holdfast waits for a Redisson thread that holds it twice, until the last unlock', async () => {
  await javaLock();
  await javaLock();
  const waiting = nextEvent(client, 'waiting');
  const mine = client.getLock(name).acquire();
  await waiting;
  expect(await javaUnlock()).toBe(0);
  expect(await redis.hgetall(name)).toEqual({ [thread]: '1' });
  expect(await javaUnlock()).toBe(1);
  await (await mine).release();
});

it('forceUnlock() frees what Redisson holds', async () => {
  await javaLock();
  expect(await client.getLock(name).forceUnlock()).toBe(true);
  expect(await javaUnlock()).toBeNull();
  await redis.del(`holdfast_forced:{${name}}`);
});

it('an owner with a negative number, as lockAsync(-1) makes, is a holder like any other', async () => {
  const negative = `${randomUUID()}:-1`;
  await redis.eval(LOCK, 1, name, 30_000, negative);
  const held = { code: 'LOCK_TIMEOUT', holder: negative };
  await expect(client.getLock(name).acquire({ wait: 0 })).rejects.toMatchObject(held);
  await expect(client.getFairLock(name).acquire({ wait: 50 })).rejects.toMatchObject(held);
  expect(await client.getLock(name).forceUnlock()).toBe(true);
  await redis.del(`holdfast_forced:{${name}}`);
});

it('Redisson’s read-write lock is no lock of ours: a KeyConflictError, and nothing is changed', async () => {
  const data = { mode: 'read', [thread]: '1' };
  await redis.hset(name, data);
  await expect(client.getLock(name).lock()).rejects.toMatchObject({ code: 'KEY_CONFLICT' });
  await expect(client.getLock(name).forceUnlock()).rejects.toMatchObject({ code: 'KEY_CONFLICT' });
  expect(await redis.hgetall(name)).toEqual(data);
  await redis.del(name);
});
