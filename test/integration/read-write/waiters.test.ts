// The waiters of a read-write lock, as getWaiters() lists them.
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient, rejectionOf, sharedConnection } from '../../support/clients.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';

const redis = sharedConnection();
let one: Holdfast;
let two: Holdfast;

beforeEach(async () => {
  const options = { lockWatchdogTimeout: 30_000 };
  [one, two] = [newClient(options), newClient(options)];
  await Promise.all([one.ping(), two.ping()]);
});

afterEach(async () => {
  await Promise.all([one.close(), two.close()]);
});

it('getWaiters() lists the line for both halves, over all clients, the next one first', async () => {
  const lock = new TestReadWriteLock(redis);
  const looking = two.getReadWriteLock(lock.name);
  expect(await looking.getWaiters()).toEqual([]);
  const held = await lock.writeLock(one).acquire();
  expect(await looking.getWaiters()).toEqual([]);
  const { hold: first } = await lock.join(two, 'read');
  const { hold: second } = await lock.join(one, 'write');
  const { hold: third } = await lock.join(one, 'read');
  const waiters = await looking.getWaiters();
  expect(waiters.map(({ wants }) => wants)).toEqual(['read', 'write', 'read']);

  await held.release();
  const present = await first;
  expect(present.ownerId).toBe(waiters[0]!.ownerId);
  expect(await looking.getWaiters()).toEqual(waiters.slice(1));
  await present.release();
  const next = await second;
  expect(next.ownerId).toBe(waiters[1]!.ownerId);
  await next.release();
  await (await third).release();
  expect(await looking.getWaiters()).toEqual([]);
  await lock.isGone();
});

it('getWaiters() omits a place whose lease is over', async () => {
  const lock = new TestReadWriteLock(redis);
  const held = await lock.writeLock(one).acquire();
  const { hold } = await lock.join(two, 'read');
  const [place] = await one.getReadWriteLock(lock.name).getWaiters();
  const [, , line, places] = lock.keys;
  // Of a process that died 2 s ago, before ours.
  await redis.zadd(line, 1, 'dead:1');
  await redis.hset(places, 'dead:1', `w1 1 ${Date.now() - 2_000} 30000 0 1 dead`);
  expect(await one.getReadWriteLock(lock.name).getWaiters()).toEqual([place]);
  await held.release();
  await (await hold).release();
  await lock.isGone();
});

it("getWaiters() fails with an error that says so if the name is a semaphore's", async () => {
  const lock = new TestReadWriteLock(redis);
  const permit = await one.getSemaphore(lock.name, { permits: 2 }).acquire();
  const error = await rejectionOf(two.getReadWriteLock(lock.name).getWaiters());
  expect(error).toMatchObject({ code: 'KEY_CONFLICT', lockName: lock.name });
  await permit.release();
  await lock.isGone();
});
