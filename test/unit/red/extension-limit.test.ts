// A Redlock with a limited number of extensions: which rounds of the watchdog take one.
import { beforeEach, afterEach, expect, it, vi } from 'vitest';
import { now, PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import type { RenewalLimit } from '../../../src/core/protocol.js';
import { extensionLimit } from '../../../src/locks/redlock/renewal.js';

const LEASE_MS = 6_000;

function limited(maxExtensions: number, ageMs = 0): RenewalLimit {
  return extensionLimit(maxExtensions, LEASE_MS, ageMs, PROCESS_CLOCK);
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it('is not extended for the first sixth of the lease, nor for as long after an extension', () => {
  const limit = limited(3);
  expect(limit.isDue).toBe(false);
  vi.advanceTimersByTime(LEASE_MS / 6);
  expect(limit.isDue).toBe(true);
  limit.renewed(now(PROCESS_CLOCK));
  expect(limit.isDue).toBe(false);
  vi.advanceTimersByTime(LEASE_MS / 6);
  expect(limit.isDue).toBe(true);
});

it('that took long to acquire is due at once', () => {
  expect(limited(1, LEASE_MS / 2).isDue).toBe(true);
});

it('is due after the machine was suspended, which only the wall clock shows', () => {
  const limit = limited(1);
  vi.setSystemTime(Date.now() + LEASE_MS / 2);
  expect(limit.isDue).toBe(true);
});

it('that was asked for twice at a time is one extension', () => {
  const limit = limited(2);
  vi.advanceTimersByTime(LEASE_MS / 3);
  const [first, second] = [now(PROCESS_CLOCK), now(PROCESS_CLOCK)];
  limit.renewed(first);
  limit.renewed(second);
  vi.advanceTimersByTime(LEASE_MS / 3);
  expect(limit.isDue).toBe(true);
});

it('is not extended more often than it may be', () => {
  const limit = limited(2);
  for (let count = 0; count < 2; count++) {
    vi.advanceTimersByTime(LEASE_MS / 3);
    expect(limit.isDue).toBe(true);
    limit.renewed(now(PROCESS_CLOCK));
  }
  vi.advanceTimersByTime(LEASE_MS / 3);
  expect(limit.isDue).toBe(false);
});
