// What a Redlock cannot be made of, and clients that are closed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ClosedError, OptionError, QuorumError, type RedLockOptions } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { redNodes, type RedClient } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

const nodes = redNodes(() => startMasters(3));
let client: RedClient;

beforeAll(async () => {
  client = await nodes.client();
});

afterAll(async () => {
  await client[Symbol.asyncDispose]();
});

describe('a Redlock cannot be made of', () => {
  const [a, b] = [0, 1].map(
    (index) =>
      (name = 'orders') =>
        client.members[index]!.getLock(name),
  );

  it.each([
    ['no locks', () => client.holdfast.getRedLock(), /at least one/],
    ['options alone', () => client.holdfast.getRedLock({}), /at least one/],
    ['two locks of one client', () => client.holdfast.getRedLock(a!(), a!()), /twice|one client/],
    ['different names', () => client.holdfast.getRedLock(a!('a'), b!('b')), /"a" and "b"/],
    [
      'a fair lock',
      () => client.holdfast.getRedLock(a!(), client.members[1]!.getFairLock('orders')),
      /not a lock of getLock/,
    ],
    [
      'a MultiLock',
      () => client.holdfast.getRedLock(a!(), client.holdfast.getMultiLock(b!())),
      /member 2/,
    ],
    ['a Redlock', () => client.holdfast.getRedLock(client.lock('orders')), /getLock/],
    ['something else', () => client.holdfast.getRedLock(a!(), 'orders' as never), /must be/],
    ['null in the end', () => client.holdfast.getRedLock(a!(), null as never), /must be/],
  ])('%s', (_, make, message) => {
    let error: unknown;
    try {
      make();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(OptionError);
    expect((error as Error).message).toMatch(message);
  });

  it.each([
    { nodeTimeout: 0 },
    { nodeTimeout: -1 },
    { nodeTimeout: 1.5 },
    { nodeTimeout: NaN },
    { nodeTimeout: Infinity },
    { nodeTimeout: '50' },
    { restartGuard: true },
    { restartGuard: -1 },
    { restartGuard: NaN },
    { restartGuard: null },
    { maxExtensions: -1 },
    { maxExtensions: 0.5 },
    { maxExtensions: '3' },
    { nodeTimeOut: 50 },
  ])('options like %j', (options) => {
    const make = (): unknown => client.lock('orders', options as RedLockOptions);
    expect(make).toThrow(OptionError);
    expect(make).toThrow(Object.keys(options)[0]!);
  });
});

it.each([{}, { maxExtensions: Infinity }, { restartGuard: 0 }, { nodeTimeout: undefined }])(
  'options like %j are fine',
  async (options) => {
    const lock = client.lock(uniqueName(), { restartGuard: false, ...options });
    await lock.withLock(() => undefined);
    await nodes.nothingLeft(lock);
  },
);

it('two masters that are the same server are told before anything is sent', async () => {
  const [first, second] = nodes.urls;
  await using doubled = await nodes.client({}, [
    first!,
    second!,
    first!.replace('127.0.0.1', 'localhost'),
  ]);
  const lock = doubled.lock(uniqueName());
  const error = await rejectionOf(lock.lock());
  expect(error).toBeInstanceOf(OptionError);
  expect(error).toMatchObject({ lockName: lock.name });
  expect((error as Error).message).toContain('are the same server');
  await nodes.nothingLeft(lock);
});

describe('closed clients', () => {
  it('a Redlock of a closed client throws ClosedError', async () => {
    await using own = await nodes.client();
    const before = own.lock('orders');
    await own.holdfast.close();
    for (const lock of [before, own.lock('orders')]) {
      expect(await rejectionOf(lock.lock())).toBeInstanceOf(ClosedError);
      expect(await rejectionOf(lock.tryLock())).toBeInstanceOf(ClosedError);
      expect(await rejectionOf(lock.isLocked())).toBeInstanceOf(ClosedError);
      expect(await rejectionOf(lock.forceUnlock())).toBeInstanceOf(ClosedError);
    }
  });

  it('one member whose client is closed is one that does not answer', async () => {
    await using own = await nodes.client();
    await own.members[2]!.close();
    const lock = own.lock(uniqueName());
    await lock.withLock(async () => {
      expect(await lock.isLocked()).toBe(true);
    });
    await nodes.nothingLeft(lock);
  });

  it('most members whose clients are closed are no quorum, at once', async () => {
    await using own = await nodes.client({ lockWatchdogTimeout: 60_000, commandTimeout: 3_000 });
    await own.members[1]!.close();
    await own.members[2]!.close();
    const lock = own.lock(uniqueName());
    const error = await rejectionOf(lock.tryLock());
    expect(error).toBeInstanceOf(QuorumError);
    const [, ...closed] = (error as QuorumError).nodes;
    for (const node of closed) {
      expect(node).toMatchObject({
        answer: 'unreachable',
        reason: expect.stringContaining('closed') as string,
      });
    }
    await expect(lock.isLocked()).rejects.toBeInstanceOf(QuorumError);
  });
});
