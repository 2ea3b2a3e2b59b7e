// The check before a decisive step, hold.assertHeld(); and a hold that is used after the function that got it has ended.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Hold, PermitHold } from '../../../src/index.js';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';
import { settle } from '../../support/occupancy.js';

let fake: FakeHoldfast;

beforeEach(() => {
  fake = fakeHoldfast();
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await fake.holdfast.close();
});

type AnyHold = Hold | PermitHold;

interface Kind {
  readonly name: string;
  acquire(): Promise<AnyHold>;
  within<T>(fn: (hold: AnyHold) => T | Promise<T>): Promise<T>;
}

const LOCKS = {
  lock: () => fake.getLock('a'),
  'kept lock': () => fake.holdfast.getLock('a', { keep: 1_000 }),
  'fair lock': () => fake.holdfast.getFairLock('a'),
  'fenced lock': () => fake.holdfast.getFencedLock('a'),
  'read lock': () => fake.holdfast.getReadWriteLock('a').readLock(),
  'write lock': () => fake.holdfast.getReadWriteLock('a').writeLock(),
  MultiLock: () => fake.holdfast.getMultiLock(fake.getLock('a'), fake.getLock('b')),
};

function kindOf(name: keyof typeof LOCKS | 'semaphore'): Kind {
  if (name === 'semaphore') {
    const semaphore = fake.holdfast.getSemaphore('a', { permits: 2 });
    const within: Kind['within'] = (fn) => semaphore.withPermits(fn);
    return { name: 'a', acquire: () => semaphore.acquire(), within };
  }
  const lock = LOCKS[name]();
  return { name: lock.name, acquire: () => lock.acquire(), within: (fn) => lock.withLock(fn) };
}

const KINDS = [...(Object.keys(LOCKS) as (keyof typeof LOCKS)[]), 'semaphore'] as const;

const NOT_HELD = expect.objectContaining({ code: 'LOCK_NOT_HELD' }) as Error;
const LOST = expect.objectContaining({ code: 'LOCK_LOST' }) as Error;

describe.each(KINDS)('assertHeld() of a %s', (name) => {
  it('passes while the hold is held, without a command', async () => {
    const hold = await kindOf(name).acquire();
    const sent = fake.server.commands.length;
    hold.assertHeld();
    await settle();
    expect(fake.server.commands).toHaveLength(sent);
    await hold.release();
  });

  it('throws LockNotHeldError from the call of release() on', async () => {
    const hold = await kindOf(name).acquire();
    const released = hold.release();
    expect(() => {
      hold.assertHeld();
    }).toThrow(NOT_HELD);
    await released;
    expect(() => {
      hold.assertHeld();
    }).toThrow(NOT_HELD);
  });

  it.each(['monotonic', 'wall'])(
    'throws LockLostError when the lease is over by the %s clock, though no timer has told it',
    async (clock) => {
      const hold = await kindOf(name).acquire();
      if (clock === 'wall') vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 40_000);
      else vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 40_000);
      expect(() => {
        hold.assertHeld();
      }).toThrow(LOST);
      expect(hold.signal.aborted).toBe(true);
      vi.restoreAllMocks();
      expect(() => {
        hold.assertHeld();
      }).toThrow(LOST);
      await hold.release().catch(() => undefined);
    },
  );
});

describe('assertHeld()', () => {
  it('throws LockNotHeldError after an export', async () => {
    const hold = await fake.getLock('a').acquire();
    await hold.export();
    expect(() => {
      hold.assertHeld();
    }).toThrow(NOT_HELD);
    expect(() => {
      hold.assertHeld();
    }).toThrow('a hold that was exported');
  });

  it('of a nested hold goes by that hold, not by the one around it', async () => {
    const lock = fake.getLock('a');
    await lock.withLock(async (outer) => {
      const inner = await lock.withLock((hold) => hold);
      expect(() => {
        inner.assertHeld();
      }).toThrow(NOT_HELD);
      outer.assertHeld();
      await Promise.resolve();
    });
  });

  it('of a client that was closed throws LockLostError', async () => {
    const hold = await fake.getLock('a').acquire();
    await fake.holdfast.close();
    expect(() => {
      hold.assertHeld();
    }).toThrow(LOST);
  });
});

describe.each(KINDS)('a hold of a %s that is used after the function that got it', (name) => {
  const USES: Record<string, (hold: AnyHold) => unknown> = {
    signal: ({ signal }) => signal,
    'remaining()': (hold) => hold.remaining(),
    'extend()': (hold) => hold.extend(1_000).catch(() => undefined),
    'assertHeld()': (hold) => {
      expect(() => {
        hold.assertHeld();
      }).toThrow(NOT_HELD);
    },
  };

  it.each(Object.keys(USES))('by %s emits one warning for its name', async (use) => {
    const kind = kindOf(name);
    for (let round = 0; round < 2; round++) {
      const hold = await kind.within((held) => held);
      await USES[use]?.(hold);
      await USES[use]?.(hold);
    }
    const message = expect.stringContaining('had ended') as string;
    expect(fake.told('warning')).toEqual([{ lockName: kind.name, message }]);
    expect(fake.processWarnings).toHaveLength(1);
  });
});

describe('no warning', () => {
  it('is emitted of a hold that is used inside the function, or released there', async () => {
    for (const name of KINDS)
      await kindOf(name).within(async (hold) => {
        hold.assertHeld();
        expect(hold.remaining()).toBeGreaterThan(0);
        await hold.release();
        expect(hold.remaining()).toBe(0);
      });
    expect(fake.told('warning')).toEqual([]);
  });

  it('is emitted of a hold that is only shown later, or released again', async () => {
    for (const name of KINDS) {
      const hold = await kindOf(name).within((held) => held);
      JSON.stringify(hold);
      expect(hold.ownerId).toMatch(/:\d+$/);
      await hold.release();
    }
    expect(fake.told('warning')).toEqual([]);
  });

  it('is emitted of a hold that was lost: its signal tells', async () => {
    let hold: Hold | undefined;
    const lost = fake.getLock('a').withLock(async (held) => {
      hold = held;
      await fake.getLock('a').forceUnlock();
    });
    await expect(lost).rejects.toThrow(LOST);
    expect(hold?.signal.aborted).toBe(true);
    expect(() => hold?.assertHeld()).toThrow(LOST);
    expect(fake.told('warning')).toEqual([]);
  });

  it('is emitted of a hold of acquire() that is used after its release', async () => {
    const hold = await fake.getLock('a').acquire();
    await hold.release();
    expect(hold.signal.aborted).toBe(false);
    expect(fake.told('warning')).toEqual([]);
  });
});
