// What callers give: refused before anything is sent, in words that name the lock, the option and the value.
import { describe, expect, it } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../src/index.js';
import { parseLease, parseName } from '../../src/options.js';
import { fakeHoldfast } from '../support/fake-holdfast.js';

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

  it.each(['a', ' ', 'ü'.repeat(512), '{', 'x:y\n', '__proto__'])('%j is fine', (name) => {
    expect(parseName(name)).toBe(name);
  });
});

describe('a request that is not usable is refused, and nothing is sent', () => {
  const calls: Calls = {
    'lease is 0': (lock) => lock.lock(0),
    'lease is NaN': (lock) => lock.lock(NaN),
    'lease is -2': (lock) => lock.tryLock(0, -2),
    'lease is 1.5': (lock) => lock.acquire({ lease: 1.5 }),
    'lease is Infinity': (lock) => lock.withLock({ lease: Infinity }, () => 1),
    "lease is '100'": (lock) => lock.lock('100' as never),
    'wait is NaN': (lock) => lock.tryLock(NaN),
    'wait is -1': (lock) => lock.acquire({ wait: -1 }),
    "wait is '5'": (lock) => lock.tryAcquire({ wait: '5' as never }),
    'signal is': (lock) => lock.acquire({ signal: {} as never }),
    'the options of lock() have no "wait"': (lock) => lock.lock({ wait: 5 } as never),
    'the options of acquire() have no "timeout"': (lock) => lock.acquire({ timeout: 5 } as never),
    'acquire() is null': (lock) => lock.acquire(null as never),
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

  it('the message names the lock and what would be right', async () => {
    const { getLock } = fakeHoldfast();
    await expect(getLock('orders:42').lock(0)).rejects.toThrow(
      /^lock "orders:42": lease is 0: it must be a whole number of milliseconds of at least 1/,
    );
  });

  it('a lease may be as long as numbers are exact', () => {
    expect(parseLease(Number.MAX_SAFE_INTEGER, 'lease')).toBe(Number.MAX_SAFE_INTEGER);
    expect(() => parseLease(2 ** 53, 'lease')).toThrow('lease');
  });
});

describe('an option of the client that is not usable is refused', () => {
  it.each<[Partial<Record<keyof HoldfastOptions | 'watchdog', unknown>>, string]>([
    [{ redis: undefined }, 'redis'],
    [{ redis: 42 }, 'redis'],
    [{ lockWatchdogTimeout: 99 }, 'lockWatchdogTimeout is 99'],
    [{ lockWatchdogTimeout: 1.5 }, 'lockWatchdogTimeout is 1.5'],
    [{ commandTimeout: 0 }, 'commandTimeout is 0'],
    [{ clientId: '' }, 'clientId'],
    [{ keyPrefix: 7 }, 'keyPrefix is 7'],
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
