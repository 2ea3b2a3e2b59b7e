// Time for leases: two clocks, of which the one that advanced further counts; and the margin for drift.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { elapsedMs, now, PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { deadlineOf, later, leftMs } from '../../../src/core/protocol.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('elapsed time', () => {
  it('is that of the monotonic clock when the wall clock is set back', () => {
    const since = now(PROCESS_CLOCK);
    vi.advanceTimersByTime(1_000);
    vi.setSystemTime(Date.now() - 60_000);
    expect(elapsedMs(since)).toBe(1_000);
  });

  it('is that of the wall clock when the monotonic one was suspended with the machine', () => {
    const since = now(PROCESS_CLOCK);
    vi.setSystemTime(Date.now() + 60_000);
    expect(elapsedMs(since)).toBe(60_000);
  });
});

describe('a confirmed lease', () => {
  it('counts from before the command was sent, minus 1 % and 2 ms', () => {
    const lease = deadlineOf(now(PROCESS_CLOCK), 10_000);
    expect(leftMs(lease)).toBe(10_000 - 102);
    vi.advanceTimersByTime(9_898);
    expect(leftMs(lease)).toBe(0);
  });

  it('keeps at least half of a very short lease', () => {
    expect(leftMs(deadlineOf(now(PROCESS_CLOCK), 2))).toBe(1);
  });

  it('never ends earlier for a later confirmation', () => {
    const long = deadlineOf(now(PROCESS_CLOCK), 10_000);
    vi.advanceTimersByTime(100);
    const short = deadlineOf(now(PROCESS_CLOCK), 1_000);
    expect(later(long, short)).toBe(long);
    expect(later(short, long)).toBe(long);
  });
});

describe('a timer', () => {
  it('of more than 24 days does not fire at once', () => {
    const fired = vi.fn();
    PROCESS_CLOCK.clearTimer(PROCESS_CLOCK.setTimer(fired, 1));
    const timer = PROCESS_CLOCK.setTimer(fired, Number.MAX_SAFE_INTEGER);
    vi.advanceTimersByTime(60_000);
    expect(fired).not.toHaveBeenCalled();
    PROCESS_CLOCK.clearTimer(timer);
  });

  it('of a fraction or a negative time fires after 1 ms at the earliest', () => {
    const fired = vi.fn();
    PROCESS_CLOCK.setTimer(fired, -5);
    PROCESS_CLOCK.setTimer(fired, 0.2);
    expect(fired).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(fired).toHaveBeenCalledTimes(2);
  });
});
