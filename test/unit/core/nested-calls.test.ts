// When calls outside any scope are warned of as waiting for themselves, and what that costs those who wait for somebody else.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';
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

describe('many who wait', () => {
  it('for another client set no timer each', async () => {
    holdfast.server.hold('a');
    const timersOfOne = await timersOfWaiters(1);
    expect(await timersOfWaiters(50)).toBeLessThanOrEqual(timersOfOne);
  });

  it('for an anonymous hold of their own client set one timer together', async () => {
    const { getLock } = holdfast;
    await getLock('a').lock();
    await timersOfWaiters(1);
    expect(await timersOfWaiters(50)).toBeLessThanOrEqual(2);
    await getLock('a').unlock();
  });
});

describe('a call that waits for an anonymous hold of its own client', () => {
  it('is warned of 1 s after that hold began, if it was waiting already', async () => {
    const { getLock, server } = holdfast;
    const lock = getLock('a');
    server.hold('a');
    const first = lock.lock();
    const second = lock.lock();
    await vi.advanceTimersByTimeAsync(5_000);
    server.free('a');
    await first;
    await vi.advanceTimersByTimeAsync(999);
    expect(warnings()).toBe(0);
    await vi.advanceTimersByTimeAsync(2);
    expect(warnings()).toBe(1);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(warnings()).toBe(1); // once for each call
    await lock.unlock();
    await second;
    await lock.unlock();
  });

  it('is warned of 1 s after it began to wait, whoever waits already', async () => {
    const { getLock } = holdfast;
    const lock = getLock('a');
    await lock.lock();
    const waiting = [lock.lock()];
    await vi.advanceTimersByTimeAsync(600);
    waiting.push(lock.lock());
    await vi.advanceTimersByTimeAsync(400);
    expect(warnings()).toBe(1);
    await vi.advanceTimersByTimeAsync(599);
    expect(warnings()).toBe(1);
    await vi.advanceTimersByTimeAsync(2);
    expect(warnings()).toBe(2);
    for (const call of waiting) {
      await lock.unlock();
      await call;
    }
    await lock.unlock();
  });

  it('is not warned of when it waits for its turn behind several short ones', async () => {
    const { getLock } = holdfast;
    const lock = getLock('a');
    await lock.lock();
    const waiting = Array.from({ length: 4 }, () => lock.lock());
    for (const call of waiting) {
      await vi.advanceTimersByTimeAsync(700);
      await lock.unlock();
      await call;
    }
    await vi.advanceTimersByTimeAsync(700);
    await lock.unlock();
    expect(warnings()).toBe(0);
  });

  it('is not warned of after it has given up, and leaves nothing that is due', async () => {
    const { getLock } = holdfast;
    const lock = getLock('a');
    await lock.lock();
    const waiting = lock.tryLock(900);
    await vi.advanceTimersByTimeAsync(950);
    expect(await waiting).toBe(false);
    await lock.unlock();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(warnings()).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});
