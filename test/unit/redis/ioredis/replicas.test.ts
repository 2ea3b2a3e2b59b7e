// How often a client connects anew while its address leads to replicas.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { replyError } from '../../../../src/redis/failure.js';
import { leavingReplicas } from '../../../../src/redis/ioredis/replicas.js';

const READ_ONLY = replyError("READONLY You can't write against a read only replica.");

let isToLeave: (error: Error) => boolean;

beforeEach(() => {
  vi.useFakeTimers();
  isToLeave = leavingReplicas();
});

afterEach(() => {
  vi.useRealTimers();
});

/** A replica says every 10 ms for so long that it is one: at which of these times it is left. */
function leftAtMs(forMs: number): number[] {
  const left: number[] = [];
  for (let atMs = 0; atMs < forMs; atMs += 10) {
    if (isToLeave(READ_ONLY)) left.push(atMs);
    vi.advanceTimersByTime(10);
  }
  return left;
}

it('a replica is left at once', () => {
  expect(isToLeave(READ_ONLY)).toBe(true);
});

it('what takes over is found at most a tenth of the time later than it might be', () => {
  const left = leftAtMs(30_000);
  for (const [index, atMs] of left.entries())
    expect(atMs - (left[index - 1] ?? 0)).toBeLessThanOrEqual(atMs * 0.1 + 10);
});

it('where it goes on, attempts become rare, but never end', () => {
  const left = leftAtMs(300_000);
  const inTheLastMinute = left.filter((atMs) => atMs >= 240_000);
  expect(inTheLastMinute.length).toBeGreaterThanOrEqual(11);
  expect(inTheLastMinute.length).toBeLessThanOrEqual(12);
});

it('after a while without one it is as at first', () => {
  leftAtMs(60_000);
  vi.advanceTimersByTime(10_000);
  expect(leftAtMs(1_000)).toEqual(expect.arrayContaining([0, 10, 20]));
});

it.each([
  'OOM command not allowed',
  'LOADING Redis is loading the dataset in memory',
  'MOVED 1 h:1',
])('no other error is one to leave for: %s', (words) => {
  expect(isToLeave(replyError(words))).toBe(false);
});
