// A name is that of one kind: whoever wants another one there is told what is in the way, and nothing is changed.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KeyConflictError, type Holdfast } from '../../../src/index.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { TestReadWriteLock } from '../../support/read-write-locks.js';
import { sharedConnection } from '../../support/shared-connection.js';

const redis = sharedConnection();
let client: Holdfast;

beforeEach(async () => {
  client = newClient({ lockWatchdogTimeout: 30_000 });
  await client.ping();
});

afterEach(() => client.close());

type Take = (name: string) => Promise<{ release(): Promise<void> } | undefined>;

const others: [string, Take, string][] = [
  ['a lock', (name) => client.getLock(name).tryAcquire(), 'a lock'],
  ['a fair lock', (name) => client.getFairLock(name).tryAcquire(), 'a lock'],
  ['a fenced lock', (name) => client.getFencedLock(name).tryAcquire(), 'a lock'],
  ['a semaphore', (name) => client.getSemaphore(name, { permits: 3 }).tryAcquire(), 'a semaphore'],
];

const halves: [string, Take][] = [
  ['read', (name) => client.getReadWriteLock(name).readLock().tryAcquire()],
  ['write', (name) => client.getReadWriteLock(name).writeLock().tryAcquire()],
];

describe.each(others)('%s', (_title, take, kind) => {
  it.each(halves)('is in the way of who wants to %s', async (_half, takeHalf) => {
    const lock = new TestReadWriteLock(redis);
    const hold = await take(lock.name);
    const before = await lock.state();
    const error = await rejectionOf(takeHalf(lock.name));
    expect(error).toBeInstanceOf(KeyConflictError);
    expect(error).toMatchObject({ code: 'KEY_CONFLICT', key: lock.name, keyType: 'hash' });
    expect((error as Error).message).toContain(`${kind}, perhaps), and not a read-write lock`);
    expect(await lock.state()).toEqual(before);
    await hold!.release();
    await lock.isGone();
    await redis.del(`redisson_lock_token:{${lock.name}}`);
  });

  it.each(halves)('is refused while somebody holds the lock to %s', async (_half, takeHalf) => {
    const lock = new TestReadWriteLock(redis);
    const hold = await takeHalf(lock.name);
    const before = await lock.state();
    const error = await rejectionOf(take(lock.name));
    expect(error).toBeInstanceOf(KeyConflictError);
    expect((error as Error).message).toContain('a read-write lock, perhaps), and not ');
    expect(await lock.state()).toEqual(before);
    await hold!.release();
    await lock.isGone();
  });
});

describe('a semaphore of which more permits were set', () => {
  it('leaves a read-write lock of its name as it is when it is used no more', async () => {
    const lock = new TestReadWriteLock(redis);
    const semaphore = client.getSemaphore(lock.name, { permits: 3 });
    await semaphore.setPermits(5);
    const write = await lock.writeLock(client).acquire();
    expect(await lock.held()).toBe('W');
    expect(await lock.readLock(client).tryLock()).toBe(false);
    for (const call of [
      () => semaphore.tryAcquire(),
      () => semaphore.setPermits(7),
      () => semaphore.availablePermits(),
    ])
      expect(await rejectionOf(call())).toBeInstanceOf(KeyConflictError);
    expect(await lock.held()).toBe('W');
    await write.release();
    await lock.isGone();
    await redis.del(`holdfast_permits:{${lock.name}}`);
  });
});
