// Wrong arguments of getFencedLock() and its calls: a clear error before anything is sent; and values in the way of a token.
import { beforeEach, describe, expect, it } from 'vitest';
import { KeyConflictError, OptionError, type FencedLockOptions } from '../../../src/index.js';
import { newClient, nextEvent, rejectionOf, sharedConnection } from '../../support/clients.js';
import { counterOf, FENCED_KINDS } from '../../support/fenced-locks.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();
let name: string;

beforeEach(() => {
  name = uniqueName('fenced');
});

describe('getFencedLock()', () => {
  const right = 'it must be a whole number of milliseconds of at least 1, or Infinity';
  it.each<[unknown, string]>([
    [{ tokenTtl: 0 }, `tokenTtl is 0: ${right}`],
    [{ tokenTtl: -1 }, `tokenTtl is -1: ${right}`],
    [{ tokenTtl: 1.5 }, `tokenTtl is 1.5: ${right}`],
    [{ tokenTtl: NaN }, `tokenTtl is NaN: ${right}`],
    [{ tokenTtl: -Infinity }, `tokenTtl is -Infinity: ${right}`],
    [{ tokenTtl: 2 ** 53 }, `tokenTtl is 9007199254740992: ${right}`],
    [{ tokenTtl: '1000' }, `tokenTtl is '1000': ${right}`],
    [{ tokenTtl: 1_000n }, `tokenTtl is 1000n: ${right}`],
    [{ tokenTtl: null }, `tokenTtl is null: ${right}`],
    [{ fair: 1 }, 'fair is 1: it must be true or false'],
    [{ fair: null }, 'fair is null: it must be true or false'],
    [{ ttl: 1_000 }, 'the options of getFencedLock() have no "ttl"; known are: fair, tokenTtl'],
    [
      true,
      'the options of getFencedLock() are true: they must be a plain object with any of fair, tokenTtl',
    ],
    [
      null,
      'the options of getFencedLock() are null: they must be a plain object with any of fair, tokenTtl',
    ],
    [
      Promise.resolve({}),
      'the options of getFencedLock() are a Promise (was an await forgotten?): they must be a plain object with any of fair, tokenTtl',
    ],
  ])('throws an OptionError for the options %o', async (options, message) => {
    await using client = newClient();
    const call = (): unknown => client.getFencedLock(name, options as FencedLockOptions);
    expect(call).toThrow(OptionError);
    expect(call).toThrow(`lock "${name}": ${message}`);
  });

  it('treats undefined options as left out', async () => {
    await using client = newClient();
    for (const options of [undefined, {}, { fair: undefined, tokenTtl: undefined }])
      expect(client.getFencedLock(name, options).toJSON().kind).toBe('FencedLock');
  });

  it('for a fair lock makes no member of a Redlock', async () => {
    await using client = newClient();
    const lock = client.getFencedLock(name, { fair: true });
    expect(() => client.getRedLock(lock)).toThrow('nor of getFencedLock() without fair');
  });
});

describe.each(FENCED_KINDS)('$title', ({ options }) => {
  it('refuses the arguments that lock() and tryLock() refuse, in its own words', async () => {
    await using client = newClient();
    const lock = client.getFencedLock(name, options);
    const calls: [() => Promise<unknown>, string][] = [
      [() => lock.lockAndGetToken(0), 'lease is 0'],
      [
        () => lock.lockAndGetToken({ wait: 1 } as object),
        'the options of lockAndGetToken() have no "wait"',
      ],
      [() => lock.tryLockAndGetToken(-1), 'wait is -1'],
      [
        () => lock.tryLockAndGetToken({ wiat: 1 } as object),
        'the options of tryLockAndGetToken() have no "wiat"',
      ],
      [
        () => lock.tryLockAndGetToken({ wait: 1 }, 5),
        'tryLockAndGetToken() was given a lease of 5 beside its options',
      ],
    ];
    for (const [call, words] of calls) {
      const error = await rejectionOf(call());
      expect(error).toBeInstanceOf(OptionError);
      expect((error as Error).message).toContain(words);
    }
    expect(await redis.exists(name, counterOf(name))).toBe(0);
  });

  const wrong: [string, string, () => Promise<unknown>][] = [
    ['text', 'a string', () => redis.set(counterOf(name), 'text')],
    ['a negative number', 'a string', () => redis.set(counterOf(name), '-5')],
    ['a fraction', 'a string', () => redis.set(counterOf(name), '1.5')],
    ['a number with an exponent', 'a string', () => redis.set(counterOf(name), '1e+15')],
    ['nothing', 'a string', () => redis.set(counterOf(name), '')],
    ['too large a number', 'a string', () => redis.set(counterOf(name), String(2 ** 53))],
    ['far too large a number', 'a string', () => redis.set(counterOf(name), '9'.repeat(400))],
    ['a list', 'a list', () => redis.rpush(counterOf(name), 'a')],
    ['a hash', 'a hash', () => redis.hset(counterOf(name), 'a', 1)],
  ];

  it.each(wrong)(
    'conflicts with a counter that is %s, and changes nothing',
    async (_what, type, spoil) => {
      await using client = newClient();
      await spoil();
      await redis.pexpire(counterOf(name), 100_000);
      const before = await redis.dump(counterOf(name));
      const lock = client.getFencedLock(name, options);
      const calls = [
        () => lock.lock(),
        () => lock.tryLock(),
        () => lock.acquire({ wait: 5_000 }),
        () => lock.lockAndGetToken(),
      ];
      for (const call of calls) {
        const error = (await rejectionOf(call())) as KeyConflictError;
        expect(error).toBeInstanceOf(KeyConflictError);
        expect(error.message).toBe(
          `lock "${name}": the key "${counterOf(name)}" is in the way: it is ${type}, and not the last fencing token; choose another name or keyPrefix`,
        );
        expect(error).toMatchObject({ key: counterOf(name), lockName: name });
      }
      expect(await redis.dump(counterOf(name))).toBe(before);
      expect(await redis.exists(name)).toBe(0);
      expect(await redis.pttl(counterOf(name))).toBeLessThanOrEqual(100_000);
      await redis.del(counterOf(name));
    },
  );

  it.each(['text', '-5', ''])('getToken() conflicts with a counter like %j', async (text) => {
    await using client = newClient();
    await redis.set(counterOf(name), text);
    const lock = client.getFencedLock(name, options);
    expect(await rejectionOf(lock.getToken())).toMatchObject({
      code: 'KEY_CONFLICT',
      key: counterOf(name),
    });
    await redis.del(counterOf(name));
  });

  it('a waiter learns when the counter became something else, and releases still succeed', async () => {
    await using one = newClient();
    await using two = newClient();
    const hold = await one.getFencedLock(name, options).acquire();
    const waiting = nextEvent(two, 'waiting');
    const next = rejectionOf(two.getFencedLock(name, options).acquire());
    await waiting;
    await redis.set(counterOf(name), 'text');
    await hold.release();
    expect(await next).toMatchObject({ code: 'KEY_CONFLICT', key: counterOf(name) });
    await expect.poll(() => redis.exists(name)).toBe(0);
    await redis.del(counterOf(name));
    expect(await two.getFencedLock(name, options).withLock(({ token }) => token)).toBeGreaterThan(
      hold.token,
    );
  });

  it('conflicts with another kind of key in the place of the lock, and uses up no token', async () => {
    await using client = newClient();
    await redis.hset(name, { mode: 'read', 'c4d5:1': '1' });
    const error = await rejectionOf(client.getFencedLock(name, options).acquire());
    expect(error).toMatchObject({ code: 'KEY_CONFLICT', key: name });
    expect(await redis.exists(counterOf(name))).toBe(0);
    await redis.del(name);
  });
});
