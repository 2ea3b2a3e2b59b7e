// The clock of a server in memory: its timers, in their order, and whether they keep the process alive.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MemoryClock } from '../../../src/testing/memory-clock.js';

describe('a MemoryClock', () => {
  let clock: MemoryClock;
  let rung: string[];

  beforeEach(() => {
    clock = new MemoryClock();
    rung = [];
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  const ring = (name: string) => (): void => {
    rung.push(name);
  };

  it('rings in real time', async () => {
    const beganMs = clock.nowMs();
    await new Promise<void>((resolve) => clock.setTimer(resolve, 20));
    expect(clock.nowMs() - beganMs).toBeGreaterThanOrEqual(20);
  });

  it('rings in the order of time, and of setting where that is the same', async () => {
    for (const [name, ms] of Object.entries({ d: 300, a: 100, b: 200, c: 200 }))
      clock.setTimer(ring(name), ms);
    await clock.advance(250);
    expect(rung).toEqual(['a', 'b', 'c']);
    await clock.advance(50);
    expect(rung).toEqual(['a', 'b', 'c', 'd']);
  });

  it('rings what is set meanwhile in its turn', async () => {
    clock.setTimer(() => clock.setTimer(ring('after 150'), 50), 100);
    clock.setTimer(ring('after 200'), 200);
    await clock.advance(200);
    expect(rung).toEqual(['after 150', 'after 200']);
  });

  it('does not ring what was cleared', async () => {
    const timers = ['a', 'b', 'c'].map((name) => clock.setTimer(ring(name), 10));
    clock.clearTimer(timers[1]);
    clock.clearTimer(timers[1]);
    clock.clearTimer(undefined);
    await clock.advance(10);
    expect(rung).toEqual(['a', 'c']);
  });

  it('is at the time of each timer when that rings, and at the end at the end', async () => {
    vi.useFakeTimers();
    const beganMs = clock.nowMs();
    const seenMs: number[] = [];
    for (const ms of [1_500.4, 0, 3])
      clock.setTimer(() => seenMs.push(clock.nowMs() - beganMs), ms);
    await clock.advance(2_000);
    expect(seenMs).toEqual([1, 3, 1_501]);
    expect(clock.nowMs() - beganMs).toBe(2_000);
    expect(clock.wallMs() - Date.now()).toBe(2_000);
  });

  it('goes on after a callback that throws', async () => {
    clock.setTimer(() => {
      throw new Error('mine');
    }, 10);
    clock.setTimer(ring('later'), 20);
    await expect(clock.advance(30)).rejects.toThrow('mine');
    await clock.advance(30);
    expect(rung).toEqual(['later']);
  });

  it('keeps the process alive for as long as one of its timers would', () => {
    const alive = (): number =>
      process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const before = alive();
    const [first, second] = [clock.setTimer(ring('a'), 10_000), clock.setTimer(ring('b'), 20_000)];
    expect(alive()).toBe(before + 1);
    second.unref();
    expect(alive()).toBe(before + 1);
    first.unref();
    first.unref();
    expect(alive()).toBe(before);
    second.ref();
    expect(alive()).toBe(before + 1);
    clock.clearTimer(second);
    expect(alive()).toBe(before);
    const third = clock.setTimer(ring('c'), 30_000);
    expect(alive()).toBe(before + 1);
    clock.clearTimer(third);
    clock.clearTimer(first);
    expect(alive()).toBe(before);
  });
});
