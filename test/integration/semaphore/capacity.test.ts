// How many permits a semaphore has: as all its users declare it, or as setPermits() set it; and what is refused.
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { KeyConflictError, OptionError, type Holdfast } from '../../../src/index.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { eventually, inTime } from '../../support/time.js';
import { TestSemaphore } from '../../support/weighted-locks.js';
import { uniqueName } from '../../support/unique-name.js';

let redis: Redis;
let client: Holdfast;

beforeAll(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
});

afterAll(() => {
  redis.disconnect();
});

beforeEach(async () => {
  client = newClient({ lockWatchdogTimeout: 20_000 });
  await client.ping();
});

afterEach(async () => {
  await client.close();
});

describe('a semaphore that others declared with another number', () => {
  it('is refused with an error that names both numbers; nothing changes', async () => {
    const semaphore = new TestSemaphore(redis, 3);
    const hold = await semaphore.of(client).acquire();
    for (const call of [
      semaphore.of(client, 5).acquire(),
      semaphore.of(client, 2).tryAcquire(),
      semaphore.of(client, 5).withPermits(() => undefined),
    ]) {
      const error = await rejectionOf(call);
      expect(error).toBeInstanceOf(OptionError);
      expect((error as Error).message).toMatch(/ [25] permits here, and in use with 3:/);
    }
    expect(await semaphore.used()).toBe(1);
    await hold.release();
    await semaphore.isGone();
    // When nobody uses it any more, it has the number of the next user.
    await (await semaphore.of(client, 5).acquire({ permits: 5 })).release();
    await semaphore.isGone();
  });
});

describe('setPermits', () => {
  it('overrides every declared number, and free permits go to the callers in line', async () => {
    const semaphore = new TestSemaphore(redis, 1);
    const hold = await semaphore.of(client).acquire();
    const waiting = [await semaphore.join(client), await semaphore.join(client)];
    await semaphore.of(client).setPermits(3);
    // Otherwise the next renewal of their places lets them in.
    const both = Promise.all(waiting.map((each) => each.hold));
    const held = await inTime(both, 5_000, 'they are not let in');
    expect(await semaphore.of(client).availablePermits()).toBe(0);
    expect(await semaphore.of(client, 3).availablePermits()).toBe(0);
    await Promise.all([hold, ...held].map((each) => each.release()));
    // Even after nobody uses it any more.
    await semaphore.isGone();
    expect(await semaphore.of(client).availablePermits()).toBe(3);
    await (await semaphore.of(client).acquire({ permits: 3 })).release();
    await redis.del(semaphore.setKey);
  });

  it('below the held permits revokes none, and nothing is granted until it fits', async () => {
    const semaphore = new TestSemaphore(redis, 3);
    const holds = await Promise.all([1, 2, 3].map(() => semaphore.of(client).acquire()));
    await semaphore.of(client).setPermits(1);
    const { hold } = await semaphore.join(client);
    expect(await semaphore.of(client).availablePermits()).toBe(0);
    await holds[0]!.release();
    await holds[1]!.release();
    expect(await semaphore.of(client).getWaiters()).toHaveLength(1);
    expect(holds[2]!.signal.aborted).toBe(false);
    await holds[2]!.release();
    await (await hold).release();
    await semaphore.isGone();
    await redis.del(semaphore.setKey);
  });

  it("below a waiter's request fails that waiter when it is first in line, and those behind continue", async () => {
    const semaphore = new TestSemaphore(redis, 3);
    const hold = await semaphore.of(client).acquire({ permits: 3 });
    const large = await semaphore.join(client, { permits: 3 });
    const behind = await semaphore.join(client);
    const failure = rejectionOf(large.hold);
    await semaphore.of(client).setPermits(2);
    const error = await failure;
    expect(error).toBeInstanceOf(OptionError);
    expect((error as Error).message).toContain('3 permits were asked for, and there are 2');
    await hold.release();
    await (await behind.hold).release();
    await semaphore.isGone();
    await redis.del(semaphore.setKey);
  });

  it('drops holders that have all lapsed, as many as one call can drop, and leaves nothing', async () => {
    const semaphore = new TestSemaphore(redis, 250);
    const holds = await Promise.all(
      Array.from({ length: 250 }, () => semaphore.of(client).acquire({ lease: 60_000 })),
    );
    await redis.zadd(semaphore.keys[1], ...holds.flatMap(({ ownerId }) => [1, ownerId]));
    await semaphore.of(client).setPermits(250);
    await semaphore.isGone();
    await Promise.allSettled(holds.map((hold) => hold.release()));
    await redis.del(semaphore.setKey);
  });
});

describe('refused requests', () => {
  it.each([
    [undefined, 'undefined'],
    [{}, 'undefined'],
    [{ permits: 0 }, '0'],
    [{ permits: -1 }, '-1'],
    [{ permits: 1.5 }, '1.5'],
    [{ permits: Infinity }, 'Infinity'],
    [{ permits: NaN }, 'NaN'],
    [{ permits: '3' }, '3'],
    [{ permits: 2 ** 31 }, '2147483648'],
    [{ permits: 3, wait: 1 }, 'wait'],
    [3, '3'],
  ])('getSemaphore(name, %j) throws an OptionError that names %s', (options, named) => {
    const get = (): unknown => client.getSemaphore('a', options as never);
    expect(get).toThrow(OptionError);
    expect(get).toThrow(named);
  });

  it('bad options fail before anything is sent', async () => {
    const semaphore = client.getSemaphore(uniqueName(), { permits: 3 });
    for (const options of [
      ...[{ permits: 0 }, { permits: 1.5 }, { permits: '1' }, { permits: null }, { wait: -1 }],
      ...[{ lease: 0 }, { signal: {} }, { permit: 1 }, 1, Promise.resolve({})],
    ]) {
      for (const call of [
        semaphore.acquire(options as never),
        semaphore.tryAcquire(options as never),
        semaphore.withPermits(options as never, () => undefined),
      ])
        expect(await rejectionOf(call)).toBeInstanceOf(OptionError);
    }
    expect(await rejectionOf(semaphore.setPermits(0))).toBeInstanceOf(OptionError);
    expect(await rejectionOf(semaphore.withPermits(3 as never))).toBeInstanceOf(OptionError);
    expect(await redis.exists(semaphore.name)).toBe(0);
  });

  it('more permits than exist fail with an error that names both numbers, and change nothing', async () => {
    const semaphore = new TestSemaphore(redis, 3);
    for (const call of [
      semaphore.of(client).acquire({ permits: 4 }),
      semaphore.of(client).tryAcquire({ permits: 4 }),
    ]) {
      const error = await rejectionOf(call);
      expect(error).toBeInstanceOf(OptionError);
      expect((error as Error).message).toContain('4 permits were asked for, and there are 3');
    }
    await semaphore.isGone();
  });

  it.each([
    ['a lock', () => client.getLock.bind(client)],
    ['a fair lock', () => client.getFairLock.bind(client)],
  ])(
    'a request for the name of %s that is held is refused, and so is the reverse',
    async (_kind, getter) => {
      const get = getter();
      const semaphore = new TestSemaphore(redis, 3);
      const lockHold = await get(semaphore.name).acquire();
      const error = await rejectionOf(semaphore.of(client).acquire());
      expect(error).toBeInstanceOf(KeyConflictError);
      expect((error as Error).message).toContain(
        'it is a lock of holdfast or Redisson, and not a semaphore',
      );
      expect(await rejectionOf(semaphore.of(client).availablePermits())).toBeInstanceOf(
        KeyConflictError,
      );
      expect(await rejectionOf(semaphore.of(client).setPermits(4))).toBeInstanceOf(
        KeyConflictError,
      );
      await lockHold.release();
      const hold = await semaphore.of(client).acquire();
      const refused = await rejectionOf(get(semaphore.name).tryAcquire());
      expect(refused).toBeInstanceOf(KeyConflictError);
      expect((refused as Error).message).toContain('it is a semaphore of holdfast, and not a lock');
      expect(await semaphore.used()).toBe(1);
      await hold.release();
      await semaphore.isGone();
    },
  );

  it.each(['0', '2'])(
    'other data without expiry that has the fields of a semaphore, with %s in use, is refused and stays',
    async (used) => {
      const semaphore = new TestSemaphore(redis, 10);
      const data = { capacity: '10', used, 'seat:5': 'bob', 'seat:6': 'eve' };
      await redis.hset(semaphore.name, data);
      for (const call of [
        () => semaphore.of(client).tryAcquire(),
        () => semaphore.of(client).setPermits(3),
        () => client.inspect(semaphore.name),
      ])
        expect(await rejectionOf(call())).toBeInstanceOf(KeyConflictError);
      expect(await redis.hgetall(semaphore.name)).toEqual(data);
      expect(await redis.pttl(semaphore.name)).toBe(-1);
      await redis.del(semaphore.name);
    },
  );

  it('a waiter for a semaphore is not reported as a waiter of the fair lock of its name', async () => {
    const semaphore = new TestSemaphore(redis, 1);
    const hold = await semaphore.of(client).acquire();
    const next = await semaphore.join(client);
    const fair = client.getFairLock(semaphore.name);
    for (const look of [() => fair.getWaiters(), () => fair.getQueueLength()]) {
      const error = await rejectionOf(look());
      expect(error).toBeInstanceOf(KeyConflictError);
      expect((error as Error).message).toContain('it is a semaphore of holdfast, and not a lock');
    }
    await hold.release();
    await (await next.hold).release();
    await semaphore.isGone();
  });

  it.each([0, 1, 2, 3])(
    'a key of another type in the place of key %i is reported by its name',
    async (index) => {
      const semaphore = new TestSemaphore(redis, 1);
      const hold = await semaphore.of(client).acquire();
      const key = semaphore.keys[index]!;
      await redis.set(key, 'something else', 'PX', 20_000);
      const error = await rejectionOf(semaphore.of(client).acquire());
      expect(error).toBeInstanceOf(KeyConflictError);
      expect(error).toMatchObject({ key, keyType: 'string' });
      await hold.release().catch(() => undefined);
      await redis.del(key);
      await eventually(async () => {
        expect(await redis.exists(...semaphore.keys)).toBe(0);
      });
    },
  );

  it('a capacity that is not a number is reported by its key, to acquisitions and queries', async () => {
    const semaphore = new TestSemaphore(redis, 3);
    await redis.set(semaphore.setKey, 'something else', 'PX', 20_000);
    const conflict = { key: semaphore.setKey, keyType: 'string' };
    const acquired = await rejectionOf(semaphore.of(client).tryAcquire());
    const looked = await rejectionOf(semaphore.of(client).availablePermits());
    for (const error of [acquired, looked]) {
      expect(error).toBeInstanceOf(KeyConflictError);
      expect(error).toMatchObject(conflict);
    }
    await semaphore.of(client).setPermits(2);
    expect(await semaphore.of(client).availablePermits()).toBe(2);
    const hold = await semaphore.of(client).acquire();
    // Even while the semaphore is in use, where the call checks it.
    await redis.set(semaphore.setKey, '3 or so', 'PX', 20_000);
    const used = await rejectionOf(semaphore.of(client).tryAcquire());
    expect(used).toBeInstanceOf(KeyConflictError);
    expect(used).toMatchObject(conflict);
    await hold.release();
    await semaphore.isGone();
    await redis.del(semaphore.setKey);
  });
});
