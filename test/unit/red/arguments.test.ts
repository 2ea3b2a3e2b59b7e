// The valid members of a Redlock, and its options: anything else is refused before anything is sent.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  ClosedError,
  Holdfast,
  OptionError,
  QuorumError,
  type FencedLock,
  type Lock,
  type RedLockOptions,
} from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { rejectionOf } from '../../support/clients.js';

const NAME = 'orders';

let masters: MemoryRedis[];
let clients: Holdfast[];

beforeEach(() => {
  const first = new MemoryRedis();
  masters = [first, new MemoryRedis({ timeOf: first }), new MemoryRedis({ timeOf: first })];
  clients = masters.map((redis) => new Holdfast({ redis }));
});

afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
  expect(masters.flatMap((master) => master.holders(NAME))).toEqual([]);
});

function locks(): Lock[] {
  return clients.map((client) => client.getLock(NAME));
}

function fenced(): FencedLock[] {
  return clients.map((client) => client.getFencedLock(NAME));
}

function refusal(...given: unknown[]): OptionError {
  try {
    clients[0]!.getRedLock(...(given as Lock[]));
  } catch (error) {
    if (error instanceof OptionError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

describe('a last argument that is neither a lock nor options is refused:', () => {
  it.each([
    ['a Promise whose await was forgotten', () => Promise.resolve({}), /a Promise .*await/],
    ['a Date', () => new Date(), /an instance of Date/],
    ['undefined', () => undefined, /undefined/],
    ['null', () => null, /null/],
    ['a number', () => 50, /50/],
    ['a name', () => NAME, /'orders'/],
    ['a function', () => (): undefined => undefined, /a function/],
    ['an array of locks', () => locks(), /an array of 3/],
    ['a client', () => clients[2], /a client .*getLock/],
  ])('%s', (_, last, words) => {
    const [first, second] = locks();
    const { message } = refusal(first, second, last());
    expect(message).toMatch(/^argument 3 of getRedLock\(\) is /);
    expect(message).toMatch(words);
    expect(message).toMatch(
      /it must be a lock of getLock\(\) or getFencedLock\(\), or a plain object of options$/,
    );
  });

  it('a lock of another copy of the package', async () => {
    vi.resetModules();
    const { Holdfast: OtherHoldfast } = await import('../../../src/index.js');
    await using stranger = new OtherHoldfast({ redis: 'redis://127.0.0.1:1' });
    stranger.on('error', () => undefined); // nobody is there
    const [first, second] = locks();
    expect(refusal(first, second, stranger.getLock(NAME)).message).toContain(
      'another copy of holdfast',
    );
  });
});

describe('a Redlock cannot be made of', () => {
  it.each<[string, () => unknown[], RegExp]>([
    ['no locks', () => [], /at least one/],
    ['options alone', () => [{}], /at least one/],
    [
      'a Promise of a lock',
      () => [Promise.resolve(locks()[0]), locks()[1]],
      /is a Promise .*await/,
    ],
    ['one lock twice', () => [locks()[0], locks()[0]], /"orders" twice/],
    ['different names', () => [clients[0]!.getLock('a'), clients[1]!.getLock('b')], /"a" and "b"/],
    ['a fair lock', () => [locks()[0], clients[1]!.getFairLock(NAME)], /not a lock of getLock/],
    ['a MultiLock', () => [locks()[0], clients[0]!.getMultiLock(locks()[1]!)], /member 2/],
    ['a Redlock', () => [clients[0]!.getRedLock(...locks())], /getLock/],
    [
      'a fair fenced lock',
      () => [...fenced().slice(0, 2), clients[2]!.getFencedLock(NAME, { fair: true })],
      /nor of getFencedLock\(\) without fair/,
    ],
    [
      'fenced locks beside others',
      () => [fenced()[0], locks()[1], fenced()[2], { nodeTimeout: 5 }],
      /of getFencedLock\(\) \(1, 3\) and of getLock\(\) \(2\): it must be all of one kind/,
    ],
  ])('%s', (_, given, words) => {
    expect(refusal(...given()).message).toMatch(words);
  });

  it('two clients of the same server, which is found once they are connected, and nothing is sent', async () => {
    const twin = new Holdfast({ redis: masters[0]! });
    await Promise.all([...clients, twin].map((client) => client.ping()));
    const lock = clients[0]!.getRedLock(...locks().slice(0, 2), twin.getLock(NAME));
    const error = await rejectionOf(lock.lock());
    await twin.close();
    expect(error).toMatchObject({ code: 'INVALID_OPTION', lockName: NAME });
    expect((error as Error).message).toContain('are the same server');
  });
});

describe('options', () => {
  it.each([
    { nodeTimeout: 0 },
    { nodeTimeout: 1.5 },
    { nodeTimeout: NaN },
    { nodeTimeout: Infinity },
    { nodeTimeout: '50' },
    { restartGuard: true },
    { restartGuard: -1 },
    { restartGuard: null },
    { maxExtensions: -1 },
    { maxExtensions: 0.5 },
    { maxExtensions: '3' },
    { nodeTimeOut: 50 },
  ])('like %j are refused, by name', (options) => {
    expect(refusal(...locks(), options).message).toContain(Object.keys(options)[0]!);
  });

  it.each<RedLockOptions>([
    {},
    { nodeTimeout: undefined },
    { nodeTimeout: 20 },
    { maxExtensions: Infinity },
    { restartGuard: 0 },
    Object.create(null) as object,
  ])('like %o are accepted', async (options) => {
    const guard = { restartGuard: false } as const;
    const given = clients[0]!.getRedLock(
      ...locks(),
      Object.assign(options, { ...guard, ...options }),
    );
    await given.withLock(() => undefined);
    expect(given.name).toBe(NAME);
  });

  it.each([false, 0] as const)(
    'with a restart guard of %o are refused for fenced locks',
    (restartGuard) => {
      expect(refusal(...fenced(), { restartGuard }).message).toBe(
        `lock "orders": restartGuard is ${String(restartGuard)}: it must be at least 1 ms where the members are fenced locks: a master that restarted may have forgotten their tokens`,
      );
    },
  );

  it.each([[{ restartGuard: 1 }], []])('%o over fenced locks make a fenced lock', (...options) => {
    const lock: FencedLock = clients[0]!.getRedLock(...fenced(), ...(options as [RedLockOptions]));
    expect(lock.toJSON()).toMatchObject({ kind: 'FencedRedLock', name: NAME });
  });
});

describe('of closed clients', () => {
  it('a Redlock throws ClosedError if its own client is closed, even if it is made then', async () => {
    const before = clients[0]!.getRedLock(...locks());
    await clients[0]!.close();
    for (const lock of [before, clients[0]!.getRedLock(...locks())]) {
      for (const call of ['lock', 'tryLock', 'isLocked', 'forceUnlock'] as const)
        expect(await rejectionOf(lock[call]())).toBeInstanceOf(ClosedError);
    }
  });

  it('one member counts as one that does not answer', async () => {
    await clients[2]!.close();
    const lock = clients[0]!.getRedLock(...locks(), { restartGuard: false });
    await lock.withLock(async () => {
      expect(await lock.isLocked()).toBe(true);
    });
  });

  it('most members are no quorum, at once', async () => {
    await Promise.all([clients[1]!.close(), clients[2]!.close()]);
    const lock = clients[0]!.getRedLock(...locks(), { restartGuard: false });
    const error = await rejectionOf(lock.tryLock());
    expect(error).toBeInstanceOf(QuorumError);
    const closed = { answer: 'unreachable', reason: expect.stringContaining('closed') as string };
    expect((error as QuorumError).nodes).toMatchObject([{}, closed, closed]);
    await expect(lock.isLocked()).rejects.toBeInstanceOf(QuorumError);
  });
});
