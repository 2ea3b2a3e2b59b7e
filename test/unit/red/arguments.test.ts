// What getRedLock() is given last: a lock, or options; nothing else passes for options, so no master is left out in silence.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  Holdfast,
  OptionError,
  type FencedLock,
  type Lock,
  type RedLockOptions,
} from '../../../src/index.js';
import { expectOutages } from '../../support/expected-warnings.js';

expectOutages(); // clients of a server that is not there

let redis: Redis;
let clients: Holdfast[];

beforeEach(() => {
  // Nobody listens there: what is refused must not need a server.
  redis = new Redis({ port: 1, lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => undefined);
  clients = [0, 1, 2].map(() => new Holdfast({ redis }));
});

afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
  redis.disconnect();
});

function locks(): Lock[] {
  return clients.map((client) => client.getLock('orders'));
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
    ['a Map', () => new Map(), /an instance of Map/],
    ['undefined', () => undefined, /undefined/],
    ['null', () => null, /null/],
    ['a number', () => 50, /50/],
    ['a name', () => 'orders', /'orders'/],
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
    await using stranger = new OtherHoldfast({ redis });
    const [first, second] = locks();
    expect(refusal(first, second, stranger.getLock('orders')).message).toContain(
      'another copy of holdfast',
    );
  });
});

it.each([1, 2])('a Promise at place %i is no member', (place) => {
  const given: unknown[] = locks();
  given[place - 1] = Promise.resolve(given[place - 1]);
  expect(refusal(...given).message).toMatch(
    new RegExp(`member ${place} of a Redlock is a Promise .*await`),
  );
});

it('options of an unknown name are refused', () => {
  expect(refusal(...locks(), { nodeTimeOut: 5 }).message).toContain('nodeTimeOut');
});

it.each([{}, { nodeTimeout: 20 }, Object.create(null) as object])(
  'locks and then options like %o are taken',
  (options) => {
    expect(clients[0]!.getRedLock(...locks(), options).name).toBe('orders');
  },
);

it('locks alone are taken', () => {
  expect(clients[0]!.getRedLock(...locks()).name).toBe('orders');
});

describe('fenced locks', () => {
  const fenced = (): FencedLock[] => clients.map((client) => client.getFencedLock('orders'));

  it.each([[{}], [{ restartGuard: 1 }], [{ nodeTimeout: 20 }], []])(
    'make a fenced lock (%o)',
    (...options) => {
      const lock: FencedLock = clients[0]!.getRedLock(
        ...fenced(),
        ...(options as [RedLockOptions]),
      );
      expect(lock.toJSON().kind).toBe('FencedRedLock');
      expect(lock.name).toBe('orders');
    },
  );

  it('beside others are refused, with which is which', () => {
    const [a, , c] = fenced();
    const [, plain] = locks();
    const words = 'it must be all of one kind';
    expect(refusal(a, plain, c).message).toBe(
      `a Redlock has members of getFencedLock() (1, 3) and of getLock() (2): ${words}`,
    );
    expect(refusal(plain, a, c).message).toContain(
      'of getFencedLock() (2, 3) and of getLock() (1)',
    );
    expect(refusal(a, plain, c, { nodeTimeout: 5 }).message).toContain(words);
  });

  it('that are fair are refused', () => {
    const [a, b] = fenced();
    const fair = clients[2]!.getFencedLock('orders', { fair: true });
    expect(refusal(a, b, fair).message).toBe(
      'member "orders" of a Redlock is not a lock of getLock(), nor of getFencedLock() without fair: only such can be held by a majority',
    );
  });

  it.each([false, 0] as const)('without a restart guard (%o) are refused', (restartGuard) => {
    expect(refusal(...fenced(), { restartGuard }).message).toBe(
      `lock "orders": restartGuard is ${String(restartGuard)}: it must be at least 1 ms where the members are fenced locks: a master that restarted may have forgotten their tokens`,
    );
    expect(clients[0]!.getRedLock(...locks(), { restartGuard }).name).toBe('orders');
  });
});
