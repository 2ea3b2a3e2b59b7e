// One timer for everything that is due: in order, once each, and without checking every entry each time.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { PROCESS_CLOCK, type Timer } from '../../../src/runtime/clock.js';
import { Schedule, type Due, type Scheduled } from '../../../src/runtime/schedule.js';

let schedule: Schedule;

beforeEach(() => {
  vi.useFakeTimers();
  schedule = new Schedule();
});

afterEach(() => {
  vi.useRealTimers();
});

class Item implements Due {
  scheduled: Scheduled | undefined;
  readonly dueAtMs: number[] = [];
  readonly again: () => void;

  constructor(again: (item: Item) => void = () => undefined) {
    this.again = () => {
      again(this);
    };
  }

  due(): void {
    this.dueAtMs.push(performance.now());
    this.again();
  }
}

it('each entry is due at its time by one timer, in whatever order entries came and went', () => {
  const startedAtMs = performance.now();
  // A permutation of 0..96: 50 and 97 have no common factor.
  const delaysMs = Array.from({ length: 97 }, (_, index) => ((index * 50) % 97) * 10 + 10);
  const items = delaysMs.map((delayMs) => {
    const item = new Item();
    schedule.within(item, delayMs);
    return item;
  });
  expect(vi.getTimerCount()).toBe(1);
  const isGone = (index: number): boolean => index % 3 === 0;
  items.forEach((item, index) => {
    if (isGone(index)) schedule.delete(item);
  });
  vi.advanceTimersByTime(2_000);
  expect(items.map(({ dueAtMs }) => dueAtMs)).toEqual(
    delaysMs.map((delayMs, index) => (isGone(index) ? [] : [startedAtMs + delayMs])),
  );
  expect(vi.getTimerCount()).toBe(0);
});

it('an entry that is scheduled twice is due at the earlier time, once', () => {
  const startedAtMs = performance.now();
  const item = new Item();
  schedule.within(item, 500);
  schedule.within(item, 100);
  schedule.within(item, 300);
  vi.advanceTimersByTime(2_000);
  expect(item.dueAtMs).toEqual([startedAtMs + 100]);
});

it('10,000 entries that are due one by one are checked once each', () => {
  const items = Array.from({ length: 10_000 }, (_, index) => {
    const item = new Item();
    schedule.within(item, index + 1);
    return item;
  });
  vi.advanceTimersByTime(20_000);
  expect(items.every(({ dueAtMs }) => dueAtMs.length === 1)).toBe(true);
});

it('an entry that schedules itself at once is not due again in the same round', () => {
  const item = new Item((self) => {
    schedule.within(self, 0);
  });
  schedule.within(item, 10);
  vi.advanceTimersByTime(10);
  expect(item.dueAtMs).toHaveLength(1);
  vi.advanceTimersByTime(1);
  expect(item.dueAtMs).toHaveLength(2);
  schedule.stop();
});

it('after a step of the wall clock every entry is checked as soon as one is due', () => {
  const gone = new Item();
  const later = new Item();
  const first = new Item();
  schedule.within(first, 100);
  schedule.within(later, 60_000);
  schedule.within(gone, 50_000);
  schedule.delete(gone);
  vi.setSystemTime(Date.now() + 1_000);
  vi.advanceTimersByTime(100);
  expect(first.dueAtMs).toHaveLength(1);
  expect(later.dueAtMs).toHaveLength(1);
  expect(gone.dueAtMs).toEqual([]);
  schedule.within(later, 60_000);
  schedule.within(first, 100);
  vi.advanceTimersByTime(100);
  expect(later.dueAtMs).toHaveLength(1); // once for a step
  schedule.stop();
});

it('after a step of the wall clock every entry is checked within a second, however late it is due', () => {
  const item = new Item();
  schedule.within(item, 60_000);
  vi.advanceTimersByTime(3_500);
  vi.setSystemTime(Date.now() + 30_000); // the machine was suspended, and timers continue where they were
  vi.advanceTimersByTime(1_000);
  expect(item.dueAtMs).toHaveLength(1);
  schedule.stop();
});

it('an entry that fails does not keep others from being due', () => {
  const item = new Item();
  schedule.within(
    new Item(() => {
      throw new Error('a defect');
    }),
    10,
  );
  schedule.within(item, 10);
  expect(() => vi.advanceTimersByTime(10)).toThrow('a defect');
  vi.advanceTimersByTime(10);
  expect(item.dueAtMs).toHaveLength(1);
});

it('an entry that fails after a step of the wall clock does not keep others from being checked', () => {
  const fails = (): Item =>
    new Item(() => {
      throw new Error('a defect');
    });
  const others = [new Item(), new Item()];
  const [one, other] = others;
  schedule.within(new Item(), 100);
  schedule.within(fails(), 50_000);
  schedule.within(one!, 60_000);
  schedule.within(other!, 70_000);
  schedule.within(fails(), 80_000);
  vi.setSystemTime(Date.now() + 1_000);
  for (let passedMs = 0; passedMs < 110; passedMs += 10) {
    try {
      vi.advanceTimersByTime(10);
    } catch (error) {
      expect(error).toHaveProperty('message', 'a defect');
    }
  }
  expect(others.map(({ dueAtMs }) => dueAtMs.length)).toEqual([1, 1]);
  schedule.stop();
});

it('an empty schedule keeps no process alive, and one with an entry does again', () => {
  vi.useRealTimers();
  const timers = new Set<Timer | undefined>();
  const own = new Schedule({
    ...PROCESS_CLOCK,
    setTimer(callback, delayMs) {
      const timer = PROCESS_CLOCK.setTimer(callback, delayMs);
      timers.add(timer);
      return timer;
    },
    clearTimer(timer) {
      timers.delete(timer);
      PROCESS_CLOCK.clearTimer(timer);
    },
  });
  const isAlive = (): boolean =>
    [...timers].some((timer) => (timer as NodeJS.Timeout | undefined)?.hasRef());
  const item = new Item();
  own.within(item, 60_000);
  expect(isAlive()).toBe(true);
  own.delete(item);
  expect(isAlive()).toBe(false);
  own.within(item, 70_000);
  expect(isAlive()).toBe(true);
  own.stop();
  expect(isAlive()).toBe(false);
});

it('a stopped schedule accepts no entry', () => {
  const item = new Item();
  schedule.within(item, 100);
  schedule.stop();
  expect(vi.getTimerCount()).toBe(0);
  schedule.within(item, 100);
  expect(vi.getTimerCount()).toBe(0);
});
