// The tokens of a fenced Redlock: each holder's is larger than all before it, and most masters know it before the lock is granted.
import { Redis } from 'ioredis';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { FencedLock } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { counterOf, expectGrowing, passThrough } from '../../support/fenced-locks.js';
import { countCommands } from '../../support/recorded-commands.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const HOUR_US = 3_600_000_000n;
const DAY_MS = 86_400_000;

const nodes = redNodes(() => startMasters(5));
let name: string;

beforeAll(async () => {
  await nodes.unguarded();
});

beforeEach(() => {
  name = uniqueName('fenced-red');
});

/** The last tokens that these masters remember. */
async function remember(token: bigint, indexes: number[]): Promise<void> {
  for (const index of indexes) {
    const redis = new Redis(nodes.urls[index]!);
    await redis.set(counterOf(name), String(token), 'PX', 60_000);
    redis.disconnect();
  }
}

function microseconds(): bigint {
  return BigInt(Date.now()) * 1_000n;
}

describe('a fenced Redlock', () => {
  it('gives each holder a larger token, whoever it is, and all masters know it', async () => {
    await using one = await nodes.client();
    await using two = await nodes.client();
    const tokens: (bigint | undefined)[] = [];
    for (const client of [one, two, one, two, two]) {
      const lock: FencedLock = client.fencedLock(name);
      tokens.push(await passThrough(lock));
      await using hold = await lock.acquire();
      tokens.push(hold.token);
      await eventually(async () => {
        expect(await nodes.tokens(lock)).toEqual(Array(5).fill(hold.token));
      });
      expect(await lock.getToken()).toBe(hold.token);
      await hold.release();
      tokens.push(await lock.lockAndGetToken());
      await lock.unlock();
      tokens.push(await lock.tryLockAndGetToken({ wait: 10_000 }));
      await lock.unlock();
    }
    expectGrowing(tokens);
    await nodes.nothingLeft({ name });
  });

  it.each([
    ['one', [2]],
    ['two', [0, 4]],
    ['all', [0, 1, 2, 3, 4]],
  ])('has a token larger than the one that %s of five masters know', async (_, indexes) => {
    await using client = await nodes.client();
    const known = microseconds() + HOUR_US;
    await remember(known, indexes);
    const lock = client.fencedLock(name);
    await using hold = await lock.acquire();
    if (indexes.length > 2) expect(hold.token).toBe(known + 1n);
    await eventually(async () => {
      const late = (await nodes.tokens(lock)).filter((token) => (token ?? 0n) < hold.token);
      expect(late).toEqual([]);
    });
  });

  it('writes its token to masters that another client holds, and remembers it there', async () => {
    await using client = await nodes.client();
    await nodes.holdBy('somebody:1', { name }, [3, 4]);
    const lock = client.fencedLock(name);
    const token = await passThrough(lock);
    await eventually(async () => {
      expect(await nodes.tokens(lock)).toEqual(Array(5).fill(token));
    });
    await nodes.remove(lock, [3, 4]);
    await nodes.nothingLeft(lock);
  });

  it('remembers the last token for tokenTtl, for ever if that is Infinity, and never for a shorter time than before', async () => {
    await using client = await nodes.client();
    const ttlsMs = (): Promise<(number | undefined)[]> =>
      nodes.ask((redis) => redis.pttl(counterOf(name)));
    const expectTtls = (fromMs: number, toMs: number): Promise<void> =>
      eventually(async () => {
        for (const ttlMs of await ttlsMs()) {
          expect(ttlMs).toBeGreaterThan(fromMs);
          expect(ttlMs).toBeLessThanOrEqual(toMs);
        }
      });
    await passThrough(client.fencedLock(name, {}, { tokenTtl: 100_000 }));
    await expectTtls(50_000, 100_001);
    await passThrough(client.fencedLock(name));
    await expectTtls(7 * DAY_MS - 50_000, 7 * DAY_MS + 1);
    await passThrough(client.fencedLock(name, {}, { tokenTtl: 100_000 }));
    await expectTtls(7 * DAY_MS - 50_000, 7 * DAY_MS + 1);
    await passThrough(client.fencedLock(name, {}, { tokenTtl: Infinity }));
    await expectTtls(-2, -1);
    await nodes.ask((redis) => redis.del(counterOf(name)));
    // A token ahead of the clock is remembered until the clock reaches it, and for tokenTtl after that.
    await remember(microseconds() + HOUR_US, [0, 1, 2, 3, 4]);
    await passThrough(client.fencedLock(name, {}, { tokenTtl: 1 }));
    await expectTtls(3_600_000 - 50_000, 3_600_000 + 10);
  });

  it('shares the token among nested holds, including those of a plain Redlock; extend() and renewals keep it', async () => {
    await using client = await nodes.client({ lockWatchdogTimeout: 1_500 });
    const lock = client.fencedLock(name);
    await lock.withLock(async (hold) => {
      const { token } = hold;
      expect(await passThrough(lock)).toBe(token);
      expect(await client.holdfast.run(() => lock.withLock((inner) => inner.token))).toBe(token);
      expect(await client.lock(name).withLock((inner) => inner.token)).toBe(token);
      await hold.extend(5_000);
      await new Promise((resolve) => client.holdfast.once('renewed', resolve));
      expect(hold.token).toBe(token);
      expect(await lock.getToken()).toBe(token);
    });
    await nodes.nothingLeft(lock);
  });

  it('throws an OptionError inside a plain Redlock, which has no token', async () => {
    await using client = await nodes.client();
    await client.lock(name).withLock(async (hold) => {
      expect(hold.token).toBeUndefined();
      const error = await rejectionOf(client.fencedLock(name).acquire());
      expect(error).toMatchObject({ code: 'INVALID_OPTION', lockName: name });
      expect((error as Error).message).toContain('held around this call without a token');
    });
    expect(await nodes.tokens({ name })).toEqual(Array(5).fill(0n));
    await nodes.nothingLeft({ name });
  });

  it('may be a member of a MultiLock, whose hold has no token, and has its own token inside', async () => {
    await using client = await nodes.client();
    const { holdfast } = client;
    const lock = client.fencedLock(name);
    const before = await passThrough(lock);
    const both = holdfast.getMultiLock(lock, holdfast.getLock(`${name}:other`));
    await both.withLock(async (hold) => {
      expect(hold.token).toBeUndefined();
      expectGrowing([before, await passThrough(lock)]);
    });
    await nodes.nothingLeft(lock);
  });

  it('tryLockAndGetToken() returns undefined while another client has the lock, and uses up no token', async () => {
    await using one = await nodes.client();
    await using two = await nodes.client();
    await using hold = await one.fencedLock(name).acquire();
    const theirs = two.fencedLock(name);
    expect(await theirs.tryLockAndGetToken()).toBeUndefined();
    expect(await theirs.tryLockAndGetToken(500, 5_000)).toBeUndefined();
    expect(await theirs.getToken()).toBe(hold.token);
  });

  it('getToken() returns undefined before the first holder', async () => {
    await using client = await nodes.client();
    expect(await client.fencedLock(name).getToken()).toBeUndefined();
  });

  it('getToken() returns the largest token of any majority, and fails without a majority', async () => {
    await using client = await nodes.client({ commandTimeout: 1_000 });
    const lock = client.fencedLock(name);
    const token = await passThrough(lock);
    await eventually(async () => {
      expect(await nodes.tokens(lock)).toEqual(Array(5).fill(token));
    });
    await remember(5n, [0, 1]);
    await client.members[3]!.close();
    await client.members[4]!.close();
    expect(await lock.getToken()).toBe(token);
    await client.members[2]!.close();
    expect(await rejectionOf(lock.getToken())).toMatchObject({ code: 'NO_QUORUM', lockName: name });
  });

  it('conflicts with a counter that is something else on most masters, and changes nothing', async () => {
    await using client = await nodes.client();
    await nodes.ask((redis) => redis.set(counterOf(name), 'text', 'PX', 60_000));
    const lock = client.fencedLock(name);
    for (const call of [
      () => lock.acquire(),
      () => lock.tryLockAndGetToken(),
      () => lock.getToken(),
    ]) {
      const error = await rejectionOf(call());
      expect(error).toMatchObject({ code: 'KEY_CONFLICT', key: counterOf(name), lockName: name });
      expect((error as Error).message).toContain('and not the last fencing token');
    }
    expect(await nodes.ask((redis) => redis.get(counterOf(name)))).toEqual(Array(5).fill('text'));
    expect(await nodes.owners(lock)).toEqual(Array(5).fill(''));
  });

  it('works without a master whose last token comes from no clock, and names it where it is needed', async () => {
    await using client = await nodes.client({ commandTimeout: 2_000 });
    const lock = client.fencedLock(name);
    const odd = 2n ** 53n - 3n;
    const tokens = [await passThrough(lock)];
    await remember(odd, [2]);
    for (let count = 0; count < 5; count++) tokens.push(await passThrough(lock));
    expectGrowing(tokens);
    expect(tokens.at(-1)).toBeLessThan(2n ** 52n);
    expect((await nodes.tokens(lock))[2]).toBe(odd);
    for (const index of [3, 4]) await client.members[index]!.close();
    const error = await rejectionOf(lock.tryAcquire());
    expect(error).toMatchObject({ code: 'NO_QUORUM', lockName: name });
    const address = nodes.urls[2]!.replace(/^redis:\/\//, '');
    expect((error as Error).message).toContain(
      `${address}: KEYCONFLICT the key of the last fencing token holds something else`,
    );
    await nodes.nothingLeft(lock);
    const redis = new Redis(nodes.urls[2]!);
    await redis.del(counterOf(name));
    redis.disconnect();
    tokens.push(await passThrough(lock));
    expectGrowing(tokens);
    await nodes.nothingLeft(lock);
  });

  it('takes two scripts on each master to acquire, and one to release', async () => {
    await using client = await nodes.client({ lockWatchdogTimeout: 60_000 });
    const lock = client.fencedLock(name);
    await passThrough(lock);
    const counts = await countCommands(nodes.servers[2]!.url, async () => {
      for (let count = 0; count < 10; count++) await passThrough(lock);
      await client.connected();
    });
    expect(counts['evalsha']).toBe(10 * 3 + 1); // the last one checks whether the client is connected
    expect(counts['eval']).toBeUndefined();
  });
});
