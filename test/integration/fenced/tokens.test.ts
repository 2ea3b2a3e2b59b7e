// The tokens of a fenced lock: each holder's is larger than all before it, nested holds share it, and the server remembers the last.
import { beforeEach, describe, expect, it } from 'vitest';
import type { FencedLock, Holdfast } from '../../../src/index.js';
import { newClient, nextEvent, rejectionOf, sharedConnection } from '../../support/clients.js';
import {
  counterOf,
  expectGrowing,
  FENCED_KINDS,
  memoryMs,
  passThrough,
  serverTimeUs,
} from '../../support/fenced-locks.js';
import { uniqueName } from '../../support/unique-name.js';

const DAY_MS = 86_400_000;

const redis = sharedConnection();
let name: string;

beforeEach(() => {
  name = uniqueName('fenced');
});

describe.each(FENCED_KINDS)('$title', ({ options }) => {
  const lockOf = (client: Holdfast, more = {}): FencedLock =>
    client.getFencedLock(name, { ...options, ...more });

  it('gives each holder a larger token, no smaller than the time in microseconds, whoever the holder is', async () => {
    await using one = newClient();
    await using two = newClient();
    const before = await serverTimeUs(redis);
    const tokens: (bigint | undefined)[] = [before - 1n];
    for (const client of [one, two, one, two, two]) {
      const lock = lockOf(client);
      tokens.push(await passThrough(lock));
      await using hold = await lock.acquire();
      tokens.push(hold.token);
      await hold.release();
      tokens.push(await lock.lockAndGetToken());
      await lock.unlock();
      tokens.push(await lock.tryLockAndGetToken());
      await lock.unlock();
    }
    expectGrowing(tokens);
    expect(tokens.at(-1)).toBeLessThanOrEqual(await serverTimeUs(redis));
    expect(await lockOf(two).getToken()).toBe(tokens.at(-1));
    expect(await redis.get(counterOf(name))).toBe(String(tokens.at(-1)));
  });

  it('hands on larger and larger tokens when many wait', async () => {
    const clients = [1, 2, 3].map(() => newClient({ lockWatchdogTimeout: 30_000 }));
    const turns = clients.flatMap((client) =>
      Array.from({ length: 12 }, async (_, index) => {
        const lease = index % 3 === 0 ? 5_000 : undefined;
        await lockOf(client).withLock({ lease }, async ({ token }) => {
          await redis.rpush(`${name}:tokens`, String(token));
        });
      }),
    );
    await Promise.all(turns);
    expectGrowing((await redis.lrange(`${name}:tokens`, 0, -1)).map(BigInt));
    expect(await redis.llen(`${name}:tokens`)).toBe(36);
    await redis.del(`${name}:tokens`);
    await Promise.all(clients.map((client) => client.close()));
  });

  it('shares the token among nested holds, including those of plain locks of that name', async () => {
    await using client = newClient();
    const lock = lockOf(client);
    await lock.withLock(async ({ token }) => {
      expect(await passThrough(lock)).toBe(token);
      expect(await client.run(() => lock.withLock((hold) => hold.token))).toBe(token);
      expect(await client.getLock(name).withLock((hold) => hold.token)).toBe(token);
      expect(await lock.getToken()).toBe(token);
    });
    await client.run(async () => {
      const token = await lock.lockAndGetToken();
      expect(await lock.tryLockAndGetToken()).toBe(token);
      expect(await lock.getHoldCount()).toBe(2);
      await lock.unlock();
      await lock.unlock();
    });
    const hold = await lock.acquire();
    const { token } = hold;
    await hold.extend(5_000);
    await nextEvent(client, 'renewed');
    expect(hold.token).toBe(token);
    await hold.release();
    expect(hold.token).toBe(token);
  });

  it('throws an OptionError inside a hold without a token, and changes nothing', async () => {
    await using client = newClient();
    for (const plain of [client.getLock(name), client.getFairLock(name)]) {
      await plain.withLock(async (hold) => {
        for (const call of [
          () => lockOf(client).acquire(),
          () => lockOf(client).lockAndGetToken(),
          () => client.run(() => lockOf(client).tryAcquire()),
        ])
          expect(await rejectionOf(call())).toMatchObject({
            code: 'INVALID_OPTION',
            lockName: name,
            message: `lock "${name}" is held around this call without a token: it must be taken by getFencedLock() there, too`,
          });
        expect(await redis.hgetall(name)).toEqual({ [hold.ownerId]: '1' });
        expect(hold.token).toBeUndefined();
      });
    }
    expect(await redis.exists(name, counterOf(name))).toBe(0);
  });

  it('may be a member of a MultiLock, and has its token there', async () => {
    await using client = newClient();
    const lock = lockOf(client);
    const both = client.getMultiLock(lock, client.getLock(`${name}:other`));
    const before = await passThrough(lock);
    await both.withLock(async (hold) => {
      expect(hold.token).toBeUndefined();
      expectGrowing([before, await passThrough(lock)]);
    });
  });

  it('tryLockAndGetToken() returns undefined while somebody else has the lock, and uses up no token', async () => {
    await using one = newClient({ lockWatchdogTimeout: 30_000 });
    await using two = newClient();
    await using hold = await lockOf(one).acquire();
    expect(await lockOf(two).tryLockAndGetToken()).toBeUndefined();
    expect(await lockOf(two).tryLockAndGetToken(1_000, 5_000)).toBeUndefined();
    expect(await lockOf(two).tryLockAndGetToken({ wait: 1_000, lease: 5_000 })).toBeUndefined();
    expect(await lockOf(two).getToken()).toBe(hold.token);
  });

  it('lockAndGetToken() and tryLockAndGetToken() take the arguments of lock() and tryLock()', async () => {
    await using client = newClient();
    const lock = lockOf(client);
    for (const call of [
      () => lock.lockAndGetToken(4_000),
      () => lock.lockAndGetToken({ lease: 4_000 }),
      () => lock.tryLockAndGetToken(5_000, 4_000),
      () => lock.tryLockAndGetToken({ wait: 5_000, lease: 4_000 }),
    ]) {
      expect(await call()).toEqual(expect.any(BigInt));
      const ttlMs = await lock.remainTimeToLive();
      expect(ttlMs).toBeGreaterThan(3_000);
      expect(ttlMs).toBeLessThanOrEqual(4_000);
      await lock.unlock();
    }
    const signal = AbortSignal.abort();
    const aborted = { code: 'LOCK_ABORTED' };
    expect(await rejectionOf(lock.lockAndGetToken({ signal }))).toMatchObject(aborted);
    expect(await rejectionOf(lock.tryLockAndGetToken({ signal }))).toMatchObject(aborted);
  });

  it('gives a larger token after forceUnlock(), and the holder that was forced out keeps the smaller one', async () => {
    await using one = newClient();
    await using two = newClient();
    const hold = await lockOf(one).acquire();
    const waiting = nextEvent(two, 'waiting');
    const next = lockOf(two).acquire();
    await waiting;
    await lockOf(two).forceUnlock();
    await using theirs = await next;
    expectGrowing([hold.token, theirs.token]);
    expect(await rejectionOf(hold.release())).toMatchObject({ code: 'LOCK_LOST' });
    expect(hold.token).toBeLessThan(theirs.token);
  });

  it.each([
    ['deleted', () => redis.del(counterOf(name))],
    ['expired', () => redis.pexpire(counterOf(name), 1)],
    ['set back', () => redis.set(counterOf(name), '17')],
  ])('gives a larger token when the counter was %s', async (_what, lose) => {
    await using client = newClient();
    const lock = lockOf(client);
    const tokens = [await passThrough(lock)];
    await lose();
    tokens.push(await passThrough(lock));
    await using hold = await lock.acquire();
    tokens.push(hold.token);
    await lose();
    await using other = newClient();
    const waiting = nextEvent(other, 'waiting');
    const next = lockOf(other).acquire();
    await waiting;
    await hold.release();
    await using theirs = await next;
    expectGrowing([...tokens, theirs.token]);
    await redis.del(counterOf(name));
  });

  it('counts on from a counter ahead of the clock, in digits, and remembers it for longer by the difference', async () => {
    await using client = newClient();
    const lock = lockOf(client, { tokenTtl: DAY_MS });
    const aheadMs = 3_600_000;
    const ahead = (await serverTimeUs(redis)) + BigInt(aheadMs) * 1_000n;
    await redis.set(counterOf(name), String(ahead), 'PX', 1_000);
    expect(await passThrough(lock)).toBe(ahead + 1n);
    expect(await passThrough(lock)).toBe(ahead + 2n);
    const forMs = await memoryMs(redis, name);
    expect(forMs).toBeGreaterThan(DAY_MS + aheadMs - 10_000);
    expect(forMs).toBeLessThanOrEqual(DAY_MS + aheadMs);

    const largest = 2n ** 53n - 2n ** 40n;
    await redis.set(counterOf(name), String(largest - 2n));
    expect(await passThrough(lock)).toBe(largest - 1n);
    expect(await redis.get(counterOf(name))).toBe(String(largest - 1n));
    expect(await passThrough(lock)).toBe(largest);
    const error = await rejectionOf(lock.acquire());
    expect(error).toMatchObject({ code: 'KEY_CONFLICT', key: counterOf(name) });
    expect(await redis.get(counterOf(name))).toBe(String(largest));
    await redis.del(counterOf(name));
  });

  it('remembers a token for seven days, or tokenTtl, and never for less than before', async () => {
    await using client = newClient();
    await using other = newClient();
    await passThrough(lockOf(client));
    const byDefault = await memoryMs(redis, name);
    expect(byDefault).toBeGreaterThan(7 * DAY_MS - 10_000);
    expect(byDefault).toBeLessThanOrEqual(7 * DAY_MS);
    await passThrough(lockOf(client, { tokenTtl: 60_000 }));
    expect(await memoryMs(redis, name)).toBeGreaterThan(7 * DAY_MS - 10_000);
    await passThrough(lockOf(client, { tokenTtl: 30 * DAY_MS }));
    expect(await memoryMs(redis, name)).toBeGreaterThan(30 * DAY_MS - 10_000);
    // Also by a hand-over.
    const hold = await lockOf(client, { tokenTtl: 40 * DAY_MS }).acquire();
    const waiting = nextEvent(other, 'waiting');
    const next = lockOf(other, { tokenTtl: 60_000 }).acquire();
    await waiting;
    await hold.release();
    await (await next).release();
    expect(await memoryMs(redis, name)).toBeGreaterThan(40 * DAY_MS - 10_000);
  });

  it('remembers a token for ever with tokenTtl: Infinity, even if a later caller wants less', async () => {
    await using client = newClient();
    const tokens = [await passThrough(lockOf(client, { tokenTtl: 1 }))];
    tokens.push(await passThrough(lockOf(client, { tokenTtl: Number.MAX_SAFE_INTEGER })));
    expect(await memoryMs(redis, name)).toBeGreaterThan(2 ** 53 - 60_000);
    tokens.push(await passThrough(lockOf(client, { tokenTtl: Infinity })));
    expect(await memoryMs(redis, name)).toBe(-1);
    tokens.push(await passThrough(lockOf(client, { tokenTtl: 60_000 })));
    expect(await memoryMs(redis, name)).toBe(-1);
    expectGrowing(tokens);
    await redis.del(counterOf(name));
  });
});
