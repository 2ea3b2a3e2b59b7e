// What plain JavaScript gets for a method that an object does not have, and for one that was taken from its object.
import { once } from 'node:events';
import { inspect } from 'node:util';
import { firstValueFrom, fromEvent } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';

type Methods = Record<string, (...args: unknown[]) => unknown>;

let client: Holdfast;
let objects: Record<string, Methods>;

beforeEach(async () => {
  client = new Holdfast({ redis: new MemoryRedis() });
  const lock = client.getLock('a');
  const semaphore = client.getSemaphore('s', { permits: 2 });
  const all = client.getMultiLock(client.getLock('b'), client.getLock('c'));
  objects = {
    holdfast: client,
    lock,
    fairLock: client.getFairLock('a'),
    fencedLock: client.getFencedLock('a'),
    multiLock: all,
    redLock: client.getRedLock(client.getLock('a')),
    readLock: client.getReadWriteLock('r').readLock(),
    readWriteLock: client.getReadWriteLock('r'),
    semaphore,
    hold: await lock.acquire(),
    multiHold: await all.acquire(),
    permits: await semaphore.acquire(),
  } as unknown as Record<string, Methods>;
});

afterEach(() => client.close());

/** What a call throws, or rejects with. */
async function refusal(call: () => unknown): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('a method that the object does not have', () => {
  it.each([
    ['hold', 'unlock', 'the hold of lock "a" has no unlock(): use release()'],
    [
      'hold',
      'isAcquired',
      'the hold of lock "a" has no isAcquired(): use remaining(), or assertHeld()',
    ],
    ['hold', 'withLock', 'use run(fn)'],
    ['multiHold', 'unlock', 'use release()'],
    [
      'lock',
      'release',
      'lock "a" has no release(): use unlock() after lock() or tryLock(), release() of the hold that acquire() returned',
    ],
    ['lock', 'extend', 'use extend() of the hold that acquire() returned'],
    ['lock', 'using', 'lock "a" has no using(): use withLock(fn)'],
    ['lock', 'runExclusive', 'use withLock(fn)'],
    ['lock', 'isHeldByCurrentThread', 'use isHeldByCurrentOwner()'],
    ['lock', 'tryLockAsync', 'use tryLock()'],
    ['readLock', 'release', 'lock "r" has no release()'],
    ['multiLock', 'release', 'has no release()'],
    ['holdfast', 'lock', 'Holdfast has no lock(): use getLock(name).lock()'],
    [
      'holdfast',
      'acquire',
      'Holdfast has no acquire(): use getLock(name).acquire(); for several names, getMultiLock(…)',
    ],
    ['holdfast', 'using', 'use getLock(name).withLock(fn)'],
    ['holdfast', 'quit', 'use close()'],
    ['semaphore', 'withLock', 'semaphore "s" has no withLock(): use withPermits(fn)'],
    [
      'semaphore',
      'lock',
      'semaphore "s" has no lock(): use acquire(), and release() of the hold that acquire() returned',
    ],
    ['semaphore', 'release', 'use release() of the hold that acquire() returned'],
    ['semaphore', 'trySetPermits', 'use setPermits(permits)'],
    ['permits', 'unlock', 'the hold of semaphore "s" has no unlock(): use release()'],
    [
      'readWriteLock',
      'lock',
      'read-write lock "r" has no lock(): use readLock().lock() to read, writeLock().lock() to write',
    ],
  ])('of a %s: %s()', async (kind, method, message) => {
    const error = await refusal(() => objects[kind]?.[method]?.());
    expect(error).toBeInstanceOf(TypeError);
    expect(String(error)).toContain(message);
  });

  it('is named without an object, too', async () => {
    for (const method of ['release', 'using', 'getName'])
      expect(String(await refusal(objects['lock']![method]!))).toContain(`lock has no ${method}()`);
  });

  it('leaves what tells the kinds apart', () => {
    const kindsWith = (name: string): string[] =>
      Object.keys(objects).filter((kind) => name in objects[kind]!);
    expect(kindsWith('assertHeld')).toEqual(['hold', 'multiHold', 'permits']);
    expect(kindsWith('withPermits').filter((kind) => kind !== 'holdfast')).toEqual(['semaphore']);
    expect(kindsWith('getToken').filter((kind) => kind !== 'holdfast')).toEqual(['fencedLock']);
  });

  it('is a rejection if a method of that name returns a promise elsewhere', async () => {
    const call = objects['semaphore']!['withLock']!(() => 1);
    await expect(call).rejects.toThrow('use withPermits(fn)');
  });

  it('changes neither what an object shows, nor its own and enumerable properties', () => {
    for (const object of Object.values(objects)) {
      const names: string[] = [];
      for (const name in object) names.push(name);
      const shown = inspect(object) + JSON.stringify(object) + names.join(' ');
      expect(shown).not.toMatch(/\b(unlock|using|runExclusive|quit)\b/);
      expect(Object.keys({ ...object })).not.toContain('using');
      expect('then' in object).toBe(false);
    }
    expect(() => client.getMultiLock(client as never)).toThrow(
      'a client (was getLock() forgotten?)',
    );
  });

  it('adds no name by which code tells one kind from another', () => {
    const kinds = ['getToken', 'lockAndGetToken', 'getQueueLength', 'withPermits', 'readLock'];
    for (const name of kinds) expect(name in objects['lock']!).toBe(false);
    expect('run' in objects['permits']!).toBe(false);
    expect('token' in objects['multiHold']!).toBe(false);
  });

  it('leaves the ways to listen that other code looks for: once() of node:events, RxJS', async () => {
    // (RxJS asks for an `addListener` at compile time, too.)
    const heard = [
      once(client as never, 'released'),
      firstValueFrom(fromEvent(client as never, 'released')),
    ];
    await client.getLock('heard').withLock(() => undefined);
    expect(await Promise.all(heard)).toMatchObject([
      [{ lockName: 'heard' }],
      { lockName: 'heard' },
    ]);
  });

  it('hides none that the object has', async () => {
    expect(await client.getFencedLock('f').getToken()).toBeUndefined();
    expect(await client.getFairLock('f').getWaiters()).toEqual([]);
  });
});

/** The public methods, by the object that has them. */
const PUBLIC: Record<string, string> = {
  holdfast:
    'getLock getFairLock getFencedLock getReadWriteLock getSemaphore getMultiLock getRedLock adopt ping run detach on once off close held stats inspect list toJSON',
  ...Object.fromEntries(
    ['lock', 'fairLock', 'fencedLock', 'multiLock', 'redLock', 'readLock'].map((kind) => [
      kind,
      'lock tryLock unlock acquire tryAcquire withLock isLocked isHeldByCurrentOwner getHoldCount remainTimeToLive forceUnlock toJSON',
    ]),
  ),
  readWriteLock: 'readLock writeLock getWaiters toJSON',
  semaphore: 'acquire tryAcquire withPermits setPermits availablePermits getWaiters toJSON',
  hold: 'remaining assertHeld extend export release run toJSON',
  multiHold: 'remaining assertHeld extend export release run toJSON',
  permits: 'remaining assertHeld extend export release toJSON',
};

describe.each(Object.keys(PUBLIC))('a method that was detached: %s', (kind) => {
  it.each(PUBLIC[kind]?.split(' ') ?? [])('%s()', async (name) => {
    const method = objects[kind]?.[name] as (...args: unknown[]) => unknown;
    expect(method.name).toBe(name);
    const words = new RegExp(
      `^${name}\\(\\) was called without its \\w+: write \\w+\\.${name}\\(…\\), or \\(\\) =>`,
    );
    for (const call of [
      () => method(),
      () => method.call(globalThis),
      () => method.call({}, 1),
      () => method.call('a', 1),
    ])
      expect(((await refusal(call)) as Error).message).toMatch(words);
  });
});

it.each([
  ['fairLock', 'getQueueLength'],
  ['fencedLock', 'lockAndGetToken'],
])('a method that only a %s has says the same: %s()', async (kind, name) => {
  const method = objects[kind]?.[name] as () => unknown;
  expect(String(await refusal(method))).toContain(`write lock.${name}(…)`);
});
