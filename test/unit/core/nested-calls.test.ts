// When a call outside any scope triggers the warning that it waits for itself, and what that check costs waiters behind other holders.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Lock } from '../../../src/index.js';
import { fakeHoldfast, ownerOfMe, type FakeHoldfast } from '../../support/fake-holdfast.js';
import { elsewhere, rejectionOf } from '../../support/clients.js';
import { settle } from '../../support/occupancy.js';

let holdfast: FakeHoldfast;

beforeEach(() => {
  vi.useFakeTimers();
  holdfast = fakeHoldfast();
});

afterEach(() => {
  vi.useRealTimers();
});

function warnings(): number {
  return holdfast.told('warning').length;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** How many timers are set while `count` callers begin to wait. */
async function timersOfWaiters(count: number): Promise<number> {
  const aborter = new AbortController();
  const { signal } = aborter;
  const lock = holdfast.getLock('a');
  const setTimer = vi.spyOn(globalThis, 'setTimeout');
  const waiting = Array.from({ length: count }, () => lock.lock({ signal }).catch(() => undefined));
  await settle();
  expect(holdfast.told('waiting').length).toBeGreaterThanOrEqual(count);
  const timers = setTimer.mock.calls.length;
  setTimer.mockRestore();
  aborter.abort();
  await Promise.all(waiting);
  return timers;
}

describe('many waiters', () => {
  it('behind another client set no timer each', async () => {
    holdfast.server.hold('a');
    const timersOfOne = await timersOfWaiters(1);
    expect(await timersOfWaiters(50)).toBeLessThanOrEqual(timersOfOne);
  });

  it('behind an anonymous hold of their own client set one timer together', async () => {
    const { getLock } = holdfast;
    await getLock('a').lock();
    await timersOfWaiters(1);
    expect(await timersOfWaiters(50)).toBeLessThanOrEqual(2);
    await elsewhere(() => getLock('a').unlock());
  });
});

/** A call that is nested in a hold of its own caller, both outside any run. */
const nested: Record<string, (lock: Lock) => Promise<unknown>> = {
  'lock()': (lock) => lock.lock(),
  'tryLock()': (lock) => lock.tryLock(20_000),
  'acquire()': (lock) => lock.acquire(),
  'withLock()': (lock) => lock.withLock(() => undefined),
};

describe('a call inside a lock() of the same code, outside any run', () => {
  it.each(Object.entries(nested))('%s triggers a warning after 5 s of waiting', async (_, call) => {
    const { getLock, told } = holdfast;
    await getLock('a').lock();
    const helper = async (): Promise<unknown> => {
      await Promise.resolve();
      return await call(getLock('a'));
    };
    const waiting = helper();
    await vi.advanceTimersByTimeAsync(4_990);
    expect(warnings()).toBe(0);
    await vi.advanceTimersByTimeAsync(30);
    expect(told('warning')).toMatchObject([{ lockName: 'a', ownerId: ownerOfMe(1) }]);
    expect(told('warning')[0]?.message).toMatch(
      /^lock "a" .* waits for itself .*holdfast\.run.*lock\.withLock/,
    );
    await vi.advanceTimersByTimeAsync(10_000);
    expect(warnings()).toBe(1); // once for each call
    await getLock('a').unlock();
    await waiting;
  });

  it('triggers its own warning, even if other calls wait already', async () => {
    const lock = holdfast.getLock('a');
    await lock.lock();
    const waiting = [lock.lock()];
    await vi.advanceTimersByTimeAsync(3_000);
    waiting.push(lock.lock());
    await vi.advanceTimersByTimeAsync(2_010);
    expect(warnings()).toBe(1);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(warnings()).toBe(2);
    for (const call of waiting) {
      await elsewhere(() => lock.unlock());
      await call;
    }
    await lock.unlock();
  });

  it('triggers no warning once its lock has been unlocked and somebody else has it', async () => {
    const lock = holdfast.getLock('a');
    await lock.lock();
    const next = lock.acquire();
    const waiting = lock.tryLock(20_000);
    await vi.advanceTimersByTimeAsync(3_000);
    await elsewhere(() => lock.unlock());
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await waiting).toBe(false);
    expect(warnings()).toBe(0);
    await (await next).release();
  });

  it('triggers no warning after it has given up, and leaves no timer', async () => {
    const lock = holdfast.getLock('a');
    await lock.lock();
    const waiting = lock.tryLock(4_900);
    await vi.advanceTimersByTimeAsync(4_950);
    expect(await waiting).toBe(false);
    await elsewhere(() => lock.unlock());
    await vi.advanceTimersByTimeAsync(60_000);
    expect(warnings()).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('that times out reports that it waits for itself, and does not mention several locks', async () => {
    const lock = holdfast.getLock('a');
    await lock.lock();
    const error = rejectionOf(lock.acquire({ wait: 500 }));
    await vi.advanceTimersByTimeAsync(600);
    expect(await error).toMatchObject({ code: 'LOCK_TIMEOUT', lockName: 'a' });
    expect(String(await error)).toMatch(/waits for itself .*holdfast\.run.*lock\.withLock/);
    expect(String(await error)).not.toContain('getMultiLock');
    await lock.unlock();
  });
});

describe('requests that hold a lock for 1.5 s each and nest nothing', () => {
  const requests: Record<string, (lock: Lock) => Promise<void>> = {
    'with lock() and unlock()': async (lock) => {
      await lock.lock();
      await sleep(1_500);
      await lock.unlock();
    },
    'with acquire() and release()': async (lock) => {
      const hold = await lock.acquire();
      await sleep(1_500);
      await hold.release();
    },
  };
  it.each(Object.entries(requests))(
    '%s trigger no warning when they run side by side',
    async (_, request) => {
      const lock = holdfast.getLock('a');
      const done = Promise.all(Array.from({ length: 6 }, () => request(lock)));
      await vi.advanceTimersByTimeAsync(10_000);
      await done;
      expect(warnings()).toBe(0);
    },
  );

  it.each(Object.entries(requests))(
    '%s trigger no warning when a loop starts them without awaiting them',
    async (_, request) => {
      const lock = holdfast.getLock('a');
      const done: Promise<void>[] = [];
      for (let started = 0; started < 6; started++) {
        done.push(request(lock));
        await vi.advanceTimersByTimeAsync(100);
      }
      await vi.advanceTimersByTimeAsync(10_000);
      await Promise.all(done);
      expect(warnings()).toBe(0);
    },
  );
});

describe('a call beside a lock() that is held for long', () => {
  it('triggers no warning: its context shows that it is not nested', async () => {
    const lock = holdfast.getLock('a');
    const calls = [lock.lock(), lock.lock(), lock.acquire()];
    await calls[0];
    await vi.advanceTimersByTimeAsync(100_000);
    expect(warnings()).toBe(0);
    await elsewhere(() => lock.unlock());
    await calls[1];
    await lock.unlock();
    const hold = await calls[2];
    await hold!.release();
  });

  it('in a run triggers a warning after 30 s that it may be nested: a run has no marks of the code around it', async () => {
    const { getLock, run, told } = holdfast;
    const lock = getLock('a');
    await lock.lock();
    const waiting = run(async () => {
      await lock.lock();
      await lock.unlock();
    });
    await vi.advanceTimersByTimeAsync(29_900);
    expect(warnings()).toBe(0);
    await vi.advanceTimersByTimeAsync(200);
    expect(told('warning')).toMatchObject([
      { lockName: 'a', message: expect.stringContaining('may be nested') as unknown },
    ]);
    await lock.unlock();
    await waiting;
  });
});

describe('a call that waits for a hold of acquire(), which leaves no mark', () => {
  it('triggers a warning after 30 s that it may be nested', async () => {
    const { getLock, told } = holdfast;
    const hold = await getLock('a').acquire();
    const waiting = getLock('a').acquire();
    await vi.advanceTimersByTimeAsync(29_900);
    expect(warnings()).toBe(0);
    await vi.advanceTimersByTimeAsync(200);
    expect(told('warning')).toMatchObject([{ lockName: 'a', ownerId: hold.ownerId }]);
    expect(told('warning')[0]?.message).toMatch(/may be nested.*holdfast\.run.*lock\.withLock/);
    await vi.advanceTimersByTimeAsync(100_000);
    expect(warnings()).toBe(1); // once for each call
    await hold.release();
    await (await waiting).release();
  });

  it('triggers the warning 30 s after that hold began, if it was already waiting', async () => {
    const { getLock, server } = holdfast;
    server.hold('a');
    const calls = [getLock('a').acquire(), getLock('a').acquire()];
    await vi.advanceTimersByTimeAsync(20_000);
    server.free('a');
    const first = await calls[0]!;
    await vi.advanceTimersByTimeAsync(29_990);
    expect(warnings()).toBe(0);
    await vi.advanceTimersByTimeAsync(20);
    expect(warnings()).toBe(1);
    await first.release();
    await (await calls[1]!).release();
  });

  it('triggers no warning when it waits behind several shorter holds', async () => {
    const lock = holdfast.getLock('a');
    const turns = Array.from({ length: 5 }, async () => {
      const hold = await lock.acquire();
      await sleep(20_000);
      await hold.release();
    });
    await vi.advanceTimersByTimeAsync(101_000);
    await Promise.all(turns);
    expect(warnings()).toBe(0);
  });

  it('that times out reports both: that it may wait for itself, and that several locks are taken at once', async () => {
    const hold = await holdfast.getLock('a').acquire();
    const error = rejectionOf(holdfast.getLock('a').acquire({ wait: 500 }));
    await vi.advanceTimersByTimeAsync(600);
    expect(String(await error)).toMatch(
      /if this call is nested in its hold, it waits for itself: .*withLock.*getMultiLock\(\)/,
    );
    await hold.release();
  });
});
