// The data is that of Redisson's RLock: its keys, owners, counts and messages. test/redisson has the tests beside Redisson itself.
import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, inject, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

let redis: Redis;
let client: Holdfast;
let name: string;

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

it('a lock is a hash `<client>:<n>` -> count under its very name, with its lease', async () => {
  const hold = await client.getLock(name).acquire({ lease: 20_000 });
  expect(hold.ownerId).toMatch(/^.+:\d+$/);
  expect(await redis.hgetall(name)).toEqual({ [hold.ownerId]: '1' });
  await hold.run(async () => {
    const nested = await client.getLock(name).acquire();
    expect(await redis.hgetall(name)).toEqual({ [hold.ownerId]: '2' });
    await nested.release();
  });
  const ttlMs = await redis.pttl(name);
  expect(ttlMs).toBeGreaterThan(15_000);
  expect(ttlMs).toBeLessThanOrEqual(20_000);
  await hold.release();
  expect(await redis.exists(name)).toBe(0);
});

it('a release is "0" on redisson_lock__channel:{name}, once, even if it is forced', async () => {
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

it('a name with braces keeps them in its channel, as in Redisson', async () => {
  name = `${name}{tag}`;
  const subscriber = new Redis(inject('redisUrl'));
  const heard = new Promise((resolve) => subscriber.on('message', resolve));
  await subscriber.subscribe(`redisson_lock__channel:${name}`);
  await client.getLock(name).withLock(() => 1);
  expect(await heard).toBe(`redisson_lock__channel:${name}`);
  subscriber.disconnect();
});

it('an owner with a negative number, as of lockAsync(-1), is a holder like any other', async () => {
  const negative = `${randomUUID()}:-1`;
  await redis.hset(name, negative, 1);
  await redis.pexpire(name, 30_000);
  const held = { code: 'LOCK_TIMEOUT', holder: negative };
  await expect(client.getLock(name).acquire({ wait: 0 })).rejects.toMatchObject(held);
  await expect(client.getFairLock(name).acquire({ wait: 50 })).rejects.toMatchObject(held);
  expect(await client.getLock(name).forceUnlock()).toBe(true);
  await redis.del(`holdfast_forced:{${name}}`);
});

it("Redisson's read-write lock is not one of ours: a KeyConflictError, and nothing changes", async () => {
  const data = { mode: 'read', [`${randomUUID()}:52`]: '1' };
  await redis.hset(name, data);
  await expect(client.getLock(name).lock()).rejects.toMatchObject({ code: 'KEY_CONFLICT' });
  await expect(client.getLock(name).forceUnlock()).rejects.toMatchObject({ code: 'KEY_CONFLICT' });
  expect(await redis.hgetall(name)).toEqual(data);
  await redis.del(name);
});
