// A name belongs to one kind of lock: a caller of another kind learns what is in the way, and nothing changes.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KeyConflictError, type Holdfast } from '../../../src/index.js';
import { newClient, rejectionOf, sharedConnection } from '../../support/clients.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';

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
  it.each(halves)('makes it impossible to %s', async (_half, takeHalf) => {
    const lock = new TestReadWriteLock(redis);
    const hold = await take(lock.name);
    const before = await lock.state();
    const error = await rejectionOf(takeHalf(lock.name));
    expect(error).toBeInstanceOf(KeyConflictError);
    expect(error).toMatchObject({ code: 'KEY_CONFLICT', key: lock.name, keyType: 'hash' });
    expect((error as Error).message).toContain(
      `it is ${kind} of holdfast${kind === 'a lock' ? ' or Redisson' : ''}, and not a read-write lock`,
    );
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
    expect((error as Error).message).toContain(
      `it is a read-write lock of holdfast, and not ${kind};`,
    );
    expect(await lock.state()).toEqual(before);
    await hold!.release();
    await lock.isGone();
  });
});

describe('a semaphore with an increased number of permits', () => {
  it('leaves a read-write lock of its name unchanged when nobody uses it any more', async () => {
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

describe('a foreign hash', () => {
  it.each([{ used: 5 }, { capacity: 100, used: 5 }, { capacity: 3, used: 0 }])(
    'like %o is reported to a caller that wants a semaphore or a read-write lock there, and stays unchanged',
    async (fields) => {
      const { name } = new TestReadWriteLock(redis);
      await redis.hset(name, fields);
      const semaphore = client.getSemaphore(name, { permits: 3 });
      const lock = client.getReadWriteLock(name);
      for (const call of [
        () => semaphore.tryAcquire(),
        () => semaphore.acquire({ wait: 5_000 }),
        () => semaphore.setPermits(7),
        () => lock.readLock().acquire({ wait: 5_000 }),
        () => lock.writeLock().forceUnlock(),
      ])
        expect(await rejectionOf(call())).toBeInstanceOf(KeyConflictError);
      await client.close(); // what may remain of them has been removed
      const found = await redis.hgetall(name);
      await redis.del(name);
      expect(found).toEqual(
        Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, String(value)])),
      );
    },
  );
});

describe('a read-write lock whose key somebody has deleted', () => {
  it('keeps what is handed over to a reader while its client waits for a semaphore of its name', async () => {
    const lock = new TestReadWriteLock(redis);
    const writer = await lock.writeLock(client).acquire();
    const first = await lock.join(client, 'read', { wait: 20_000 });
    const second = await lock.join(client, 'read', { wait: 20_000 });
    await redis.del(lock.name);
    const semaphore = client.getSemaphore(lock.name, { permits: 1 });
    const permit = semaphore.acquire({ wait: 20_000 });
    await (await first.hold).release();
    const held = await second.hold;
    await client.ping();
    await sleep(100);
    expect(await redis.hexists(lock.name, held.ownerId)).toBe(1);
    await held.release();
    await (await permit).release();
    expect(await rejectionOf(writer.release())).toMatchObject({ code: 'LOCK_LOST' });
    await lock.isGone();
  });
});

describe('the name of a semaphore that is held', () => {
  it.each(['read', 'write'] as const)(
    'is refused to a forceUnlock() of the %s lock of that name, and its holders stay',
    async (half) => {
      const lock = new TestReadWriteLock(redis);
      const permit = await client.getSemaphore(lock.name, { permits: 3 }).acquire();
      const forced = half === 'read' ? lock.readLock(client) : lock.writeLock(client);
      expect(await rejectionOf(forced.forceUnlock())).toBeInstanceOf(KeyConflictError);
      expect(permit.signal.aborted).toBe(false);
      await permit.release();
      await lock.isGone();
    },
  );
});
