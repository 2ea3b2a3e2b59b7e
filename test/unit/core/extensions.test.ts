// Extensions that leave the lease as short as it is do not put off its renewal.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Hold } from '../../../src/index.js';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';
import { keepLock } from '../../support/kept-locks.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

type Held = Pick<Hold, 'extend' | 'release' | 'remaining' | 'signal'>;

const KINDS: Record<string, (fake: FakeHoldfast) => Promise<Held>> = {
  plain: ({ getLock }) => getLock('a').acquire(),
  fair: ({ holdfast }) => holdfast.getFairLock('a').acquire(),
  fenced: ({ holdfast }) => holdfast.getFencedLock('a').acquire(),
  read: ({ holdfast }) => holdfast.getReadWriteLock('a').readLock().acquire(),
  write: ({ holdfast }) => holdfast.getReadWriteLock('a').writeLock().acquire(),
  permit: ({ holdfast }) => holdfast.getSemaphore('a', { permits: 2 }).acquire(),
  'kept before': async ({ holdfast }) => {
    await keepLock(holdfast, 'a', 1_000);
    return holdfast.getLock('a', { keep: 1_000 }).acquire();
  },
  MultiLock: ({ holdfast, getLock }) => holdfast.getMultiLock(getLock('a'), getLock('b')).acquire(),
  'Redlock of one': ({ holdfast, getLock }) => holdfast.getRedLock(getLock('a')).acquire(),
};

it.each(Object.entries(KINDS))(
  'a hold that is extended by little every second is renewed: %s',
  async (_, acquire) => {
    const fake = fakeHoldfast();
    fake.holdfast.on('warning', () => undefined);
    const hold = await acquire(fake);
    for (let seconds = 0; seconds < 90; seconds++) {
      await vi.advanceTimersByTimeAsync(1_000);
      await hold.extend(500);
      expect(hold.remaining()).toBeGreaterThan(14_000);
    }
    await hold.release();
    expect(fake.told('lost')).toEqual([]);
    await fake.holdfast.close();
  },
);

it('a hold with nested calls of a short lease every second is renewed', async () => {
  const fake = fakeHoldfast();
  await fake.getLock('a').withLock(async (hold) => {
    for (let seconds = 0; seconds < 90; seconds++) {
      await vi.advanceTimersByTimeAsync(1_000);
      await fake.getLock('a').withLock({ lease: 500 }, () => undefined);
      expect(hold.remaining()).toBeGreaterThan(14_000);
    }
  });
  expect(fake.told('lost')).toEqual([]);
  await fake.holdfast.close();
});

it('a lock that was kept gets the whole lease only when its mark is gone', async () => {
  const fake = fakeHoldfast();
  const { server, holdfast } = fake;
  const other = fakeHoldfast({ server });
  await keepLock(holdfast, 'a', 1_000);
  const seen = new Set<string>();
  server.travel = () => {
    const isWhole = (server.keys.entry('a')?.untilMs ?? 0) - Date.now() > 10_000;
    seen.add(`${String(server.holder('a')?.count)}${isWhole ? ' with the whole lease' : ''}`);
    return new Promise((resolve) => setTimeout(resolve, 5));
  };
  const holding = holdfast.getLock('a', { keep: 1_000 }).acquire();
  await vi.advanceTimersByTimeAsync(200);
  const hold = await holding;
  // The first command that would take the mark away is lost with its connection, and all that is watched is renewed after that.
  server.fate = (command) => {
    if (!command.startsWith('reenter')) return 'answered';
    server.fate = () => 'answered';
    return 'lost command';
  };
  const waiting = other.getLock('a').acquire(); // its wish ends the keeping
  await vi.advanceTimersByTimeAsync(500);
  expect([...seen]).toEqual(['-1', '1 with the whole lease']);
  server.travel = () => Promise.resolve();
  await hold.release();
  await (await waiting).release();
  await Promise.all([holdfast.close(), other.holdfast.close()]);
});
