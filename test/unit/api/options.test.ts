// The arguments of callers: wrong ones are refused before anything is sent, with an error that names the lock, the option and the value.
import { Redis } from 'ioredis';
import { runInNewContext } from 'node:vm';
import { createClient } from 'redis';
import { describe, expect, it } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { parseLease, parseName } from '../../../src/api/options.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { fakeHoldfast } from '../../support/fake-holdfast.js';

/** What another copy of the package would export. */
const OtherCopy = {
  Lock: class Lock {
    readonly name = 'orders:42';
  },
};

type Calls = Record<
  string,
  (lock: ReturnType<ReturnType<typeof fakeHoldfast>['getLock']>) => unknown
>;

describe('a lock name', () => {
  it.each([
    ['', 'at least one character'],
    [42, 'a string'],
    [undefined, 'a string'],
    ['x'.repeat(1_025), '1025 bytes'],
    ['ü'.repeat(513), '1026 bytes'],
    ['\ud800', 'well-formed'],
  ])('%j is refused', (name, why) => {
    expect(() => parseName(name)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
    expect(() => parseName(name)).toThrow(why);
  });

  it.each(['a', ' ', 'ü'.repeat(512), '{', 'x:y\n', '__proto__'])('%j is accepted', (name) => {
    expect(parseName(name)).toBe(name);
  });
});

describe('an unusable request is refused, and nothing is sent', () => {
  const calls: Calls = {
    'lease is 0': (lock) => lock.lock(0),
    'lease is NaN': (lock) => lock.lock(NaN),
    'lease is -2': (lock) => lock.tryLock(0, -2),
    'lease is 1.5': (lock) => lock.acquire({ lease: 1.5 }),
    'lease is Infinity': (lock) => lock.withLock({ lease: Infinity }, () => 1),
    "lease is '100'": (lock) => lock.lock('100' as never),
    'wait is NaN': (lock) => lock.tryLock(NaN),
    'wait is -1': (lock) => lock.acquire({ wait: -1 }),
    'tryLock() was given a lease of 5000 beside its options': (lock) =>
      lock.tryLock({ wait: 5 }, 5_000),
    'a lease of null beside its options': (lock) => lock.tryLock({}, null as never),
    'its options come first, then the function': (lock) =>
      lock.withLock((() => 1) as never, { wait: 5 } as never),
    "wait is '5'": (lock) => lock.tryAcquire({ wait: '5' as never }),
    'signal is': (lock) => lock.acquire({ signal: {} as never }),
    'the options of lock() have no "wait"': (lock) => lock.lock({ wait: 5 } as never),
    'the options of acquire() have no "timeout"': (lock) => lock.acquire({ timeout: 5 } as never),
    'acquire() are null: they must be a plain object': (lock) => lock.acquire(null as never),
    'the function given to withLock()': (lock) => lock.withLock({}, undefined as never),
  };
  it.each(Object.entries(calls))('%s', async (message, call) => {
    const { getLock, server } = fakeHoldfast();
    const calling = async (): Promise<unknown> => await call(getLock('orders:42'));
    await expect(calling()).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      lockName: 'orders:42',
      message: expect.stringContaining(message) as unknown,
    });
    expect(server.commands).toEqual([]);
  });

  const noOptions: [string, unknown, string][] = [
    ['a Promise', Promise.resolve({ wait: 5 }), 'a Promise (was an await forgotten?)'],
    ['a Date', new Date(), 'an instance of Date'],
    ['a Map', new Map([['wait', 5]]), 'an instance of Map'],
    ['an array', [{ wait: 5 }], 'an array of 1'],
    ['an AbortSignal', new AbortController().signal, 'an instance of AbortSignal'],
    ['a lock of another copy of the package', new OtherCopy.Lock(), 'an instance of Lock'],
    ['an object that inherits its options', Object.create({ wait: 5 }), 'an object that inherits'],
  ];
  it.each(noOptions)('options that are %s', async (_title, given, words) => {
    const { getLock, server } = fakeHoldfast();
    const lock = getLock('orders:42');
    const calls: [string, () => unknown][] = [
      ['lock', () => lock.lock(given as never)],
      ['tryLock', () => lock.tryLock(given as never)],
      ['acquire', () => lock.acquire(given as never)],
      ['tryAcquire', () => lock.tryAcquire(given as never)],
      ['withLock', () => lock.withLock(given as never, () => 1)],
    ];
    for (const [method, call] of calls) {
      const calling = async (): Promise<unknown> => await call();
      await expect(calling()).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        lockName: 'orders:42',
        message: expect.stringContaining(`the options of ${method}() are ${words}`) as unknown,
      });
    }
    expect(server.commands).toEqual([]);
    expect(() => new Holdfast(given as never)).toThrow(
      `the options of new Holdfast() are ${words}`,
    );
  });

  it('but options without a prototype, or of another realm, are accepted', async () => {
    const { getLock } = fakeHoldfast();
    const bare = Object.assign(Object.create(null), { wait: 0 }) as { wait: number };
    const foreign = runInNewContext('({ wait: 0 })') as { wait: number };
    for (const options of [bare, foreign]) {
      const hold = await getLock('orders:42').acquire(options);
      await hold.release();
    }
  });

  it.each([NaN, -1, 0, 1.5, Infinity, undefined, '1000'])('extend(%s)', async (lease) => {
    const hold = await fakeHoldfast().getLock('orders:42').acquire();
    await expect(hold.extend(lease as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' });
    await hold.release();
  });

  it.each([null, 'abort', new AbortController()])('the signal %o', async (signal) => {
    const calling = fakeHoldfast()
      .getLock('orders:42')
      .lock({ signal: signal as never });
    await expect(calling).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  });

  it('a signal of a polyfill or another realm, with a message that says so', async () => {
    // Not the global one, though it has its name.
    class AbortSignal extends EventTarget {
      readonly aborted = false;
    }
    const calling = fakeHoldfast()
      .getLock('orders:42')
      .lock({ signal: new AbortSignal() as never });
    await expect(calling).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      lockName: 'orders:42',
      message: expect.stringMatching(
        /^lock "orders:42": signal is an AbortSignal of another library or realm/,
      ) as unknown,
    });
  });

  it('with a message that names the lock and the valid values', async () => {
    const { getLock } = fakeHoldfast();
    await expect(getLock('orders:42').lock(0)).rejects.toThrow(
      /^lock "orders:42": lease is 0: it must be a whole number of milliseconds of at least 1/,
    );
  });

  it('but a lease may be as large as integers are exact', () => {
    expect(parseLease(Number.MAX_SAFE_INTEGER, 'lease')).toBe(Number.MAX_SAFE_INTEGER);
    expect(() => parseLease(2 ** 53, 'lease')).toThrow('lease');
  });
});

describe('an unusable option of the client is refused', () => {
  it.each<[Partial<Record<keyof HoldfastOptions | 'watchdog', unknown>>, string]>([
    [{ redis: undefined }, 'redis'],
    [{ redis: 42 }, 'redis'],
    [{ lockWatchdogTimeout: 99 }, 'lockWatchdogTimeout is 99'],
    [{ lockWatchdogTimeout: 1.5 }, 'lockWatchdogTimeout is 1.5'],
    [
      { lockWatchdogTimeout: 2 ** 31 },
      'lockWatchdogTimeout is 2147483648: it must be a whole number of milliseconds from 100 to 2147483647 (24 days',
    ],
    [{ commandTimeout: 0 }, 'commandTimeout is 0'],
    [{ wait: -1 }, 'wait is -1: it must be a number of milliseconds of at least 0, or Infinity'],
    [{ wait: NaN }, 'wait is NaN'],
    [{ wait: '100' }, "wait is '100'"],
    [{ replicas: -1 }, 'replicas is -1: it must be a whole number of at least 0'],
    [{ replicas: 0.5 }, 'replicas is 0.5'],
    [{ replicas: Infinity }, 'replicas is Infinity'],
    [{ replicas: '1' }, "replicas is '1'"],
    [{ replicas: true }, 'replicas is true'],
    [{ commandTimeout: 2 ** 31 }, 'commandTimeout is 2147483648'],
    [{ clientId: '' }, 'clientId'],
    [{ clientId: 'a'.repeat(101) }, 'clientId'],
    [{ clientId: 'two\nlines' }, 'clientId'],
    [{ clientId: '\u001b[2J' }, 'clientId'],
    [{ clientId: '\ud800' }, 'clientId'],
    [{ keyPrefix: 7 }, 'keyPrefix is 7'],
    [{ classicUnlockChannels: 'yes' }, "classicUnlockChannels is 'yes': it must be true or false"],
    [{ classicUnlockChannels: 0 }, 'classicUnlockChannels is 0'],
    [{ watchdog: 5 }, 'have no "watchdog"'],
  ])('%j', (options, message) => {
    const given = { redis: 'redis://localhost:1', ...options } as HoldfastOptions;
    expect(() => new Holdfast(given)).toThrow(
      expect.objectContaining({
        code: 'INVALID_OPTION',
        message: expect.stringContaining(message) as unknown,
      }),
    );
  });
});

describe('where Redis is, given in place of the options or among them', () => {
  const SAID = 'where Redis is stands in the option "redis", such as new Holdfast({ redis: ';

  it.each<[string, unknown, string]>([
    ['a URL', 'redis://user:secret@h', `was given 'redis://…': ${SAID}url })`],
    ['an instance of URL', new URL('redis://h'), `was given a URL: ${SAID}url.href })`],
    [
      'a client of ioredis',
      new Redis({ lazyConnect: true }),
      `was given a client: ${SAID}client })`,
    ],
    ['a client of node-redis', createClient(), `${SAID}client })`],
    ['a server in memory', new MemoryRedis(), `was given a client: ${SAID}client })`],
    ['an option url', { url: 'redis://h' }, `have no "url": ${SAID}{ url: … } })`],
    ['an option host', { host: 'h', port: 1 }, `have no "host": ${SAID}{ host: … } })`],
    [
      'an option password',
      { redis: 'redis://h', password: 'secret' },
      `have no "password": ${SAID}`,
    ],
    ['an option client', { client: {} }, `have no "client": ${SAID}client })`],
  ])('%s is refused, and the error says where it stands', (_title, options, message) => {
    expect(() => new Holdfast(options as HoldfastOptions)).toThrow(
      expect.objectContaining({
        code: 'INVALID_OPTION',
        message: expect.stringContaining(message) as unknown,
      }),
    );
  });
});
