// Halves of read-write locks as members of a MultiLock.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LockUpgradeError, OptionError, type Holdfast } from '../../../src/index.js';
import { newClient, rejectionOf, sharedConnection } from '../../support/clients.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';

const redis = sharedConnection();
let client: Holdfast;
let other: Holdfast;

beforeEach(async () => {
  [client, other] = [
    newClient({ lockWatchdogTimeout: 30_000 }),
    newClient({ lockWatchdogTimeout: 30_000 }),
  ];
  await Promise.all([client.ping(), other.ping()]);
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
});

it('a MultiLock reads one lock and writes another', async () => {
  const [read, written] = [new TestReadWriteLock(redis), new TestReadWriteLock(redis)];
  const both = client.getMultiLock(read.readLock(client), written.writeLock(client));
  await both.withLock(async () => {
    expect([await read.held(), await written.held()]).toEqual(['R', 'W']);
    await client.detach(async () => {
      await read.readLock(other).withLock(() => undefined);
      expect(await written.readLock(other).tryLock()).toBe(false);
    });
    await written.readLock(client).withLock(() => undefined); // inside the write lock
    const writes = client.getMultiLock(read.writeLock(client));
    expect(await rejectionOf(writes.acquire())).toBeInstanceOf(LockUpgradeError);
  });
  await Promise.all([read.isGone(), written.isGone()]);
});

it('both halves of one lock cannot be members: the second would wait for the first', () => {
  const lock = new TestReadWriteLock(redis);
  expect(() => client.getMultiLock(lock.readLock(client), lock.writeLock(client))).toThrow(
    OptionError,
  );
});

it('neither half can be a member of a Redlock', () => {
  const lock = new TestReadWriteLock(redis);
  for (const half of [lock.readLock(client), lock.writeLock(client)])
    expect(() => client.getRedLock(half)).toThrow(OptionError);
});
