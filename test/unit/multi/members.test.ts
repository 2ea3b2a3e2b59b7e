// The valid members of a MultiLock: anything else is refused before anything is sent.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Holdfast, OptionError, type Lock } from '../../../src/index.js';
import { expectOutages } from '../../support/expected-warnings.js';

expectOutages(); // clients of a server that is not there

let redis: Redis;
let client: Holdfast;
let other: Holdfast;

beforeEach(() => {
  // Nobody listens there: a refusal must not need a server.
  redis = new Redis({ port: 1, lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => undefined);
  client = new Holdfast({ redis });
  other = new Holdfast({ redis });
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
  redis.disconnect();
});

function refusal(...locks: unknown[]): OptionError {
  try {
    client.getMultiLock(...(locks as Lock[]));
  } catch (error) {
    if (error instanceof OptionError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

describe('a MultiLock is refused', () => {
  it('without members', () => {
    expect(refusal()).toMatchObject({ code: 'INVALID_OPTION' });
    expect(refusal().message).toContain('at least one lock');
  });

  it('with the same lock twice, by whatever objects and kinds', () => {
    const once = client.getLock('orders:1');
    for (const again of [once, client.getLock('orders:1'), client.getFairLock('orders:1')]) {
      expect(refusal(once, client.getLock('orders:2'), again).message).toContain(
        '"orders:1" twice',
      );
    }
  });

  it('with a MultiLock inside', () => {
    const inner = client.getMultiLock(client.getLock('orders:1'), client.getLock('orders:2'));
    const { message } = refusal(client.getLock('orders:3'), inner);
    expect(message).toContain('member 2');
    expect(message).toContain(inner.name);
  });

  it('with a Redlock and one of its members, or two Redlocks that share one', () => {
    const [one, two] = [client, other].map((each) => each.getLock('orders:1'));
    const red = client.getRedLock(one!, two!);
    for (const again of [two!, other.getFairLock('orders:1'), red, other.getRedLock(two!)]) {
      expect(refusal(red, client.getLock('orders:2'), again).message).toContain('"orders:1" twice');
      expect(refusal(again, red).message).toContain('"orders:1" twice');
    }
  });

  it.each([undefined, null, 'orders:1', 7, {}, { name: 'orders:1' }, () => undefined])(
    'with %o, which is not a lock',
    (given) => {
      expect(refusal(client.getLock('orders:1'), given).message).toContain('member 2');
    },
  );

  it('with a Promise of a lock, a client, or an array of locks, which it names', () => {
    const lock = client.getLock('orders:1');
    expect(refusal(Promise.resolve(lock)).message).toMatch(/member 1 .* is a Promise .*await/);
    expect(refusal(lock, other).message).toMatch(/member 2 .* is a client .*getLock/);
    expect(refusal([lock]).message).toMatch(/member 1 .* is an array of 1/);
  });

  it('with a read-write lock or a semaphore, which it names, with the right call', () => {
    const whole = refusal(client.getReadWriteLock('catalog')).message;
    expect(whole).toMatch(/is a read-write lock .*readLock\(\).*one half of getReadWriteLock\(\)/);
    expect(refusal(client.getSemaphore('api', { permits: 1 })).message).toContain('is a semaphore');
  });

  it('with a lock of another copy of the package, which it names', async () => {
    vi.resetModules();
    const { Holdfast: OtherHoldfast } = await import('../../../src/index.js');
    expect(OtherHoldfast).not.toBe(Holdfast);
    await using stranger = new OtherHoldfast({ redis });
    expect(refusal(stranger.getLock('orders:1')).message).toMatch(
      /member 1 .* another copy of holdfast .*it must be a lock of/,
    );
  });
});

it('Redlocks beside other locks are accepted', () => {
  const [first, second] = ['orders:1', 'orders:2'].map((name) =>
    client.getRedLock(client.getLock(name), other.getLock(name)),
  );
  const multi = client.getMultiLock(first!, client.getLock('orders:3'), second!);
  expect(multi.name).toBe('multi(orders:1, orders:3, orders:2)');
});

it('one member, the same name of several clients, and reentrant beside fair ones are accepted', () => {
  expect(client.getMultiLock(client.getLock('orders:1')).name).toContain('orders:1');
  const several = client.getMultiLock(
    client.getLock('orders:1'),
    other.getFairLock('orders:1'),
    client.getFairLock('orders:2'),
  );
  expect(several.name).toBe('multi(orders:1, orders:1, orders:2)');
});

it.each([
  ['lock', [0]],
  ['tryLock', [-1]],
  ['tryLock', [{ wait: Number.NaN }]],
  ['acquire', [{ lease: 0 }]],
  ['tryAcquire', [{ wiat: 5 }]],
  ['withLock', [undefined]],
] as const)(
  '%s(%o) is refused without a server, in the name of all members',
  async (call, args) => {
    const multi = client.getMultiLock(client.getLock('orders:1'), client.getLock('orders:2'));
    const calls = multi as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
    await expect(calls[call]!(...args)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      lockName: multi.name,
    });
  },
);
