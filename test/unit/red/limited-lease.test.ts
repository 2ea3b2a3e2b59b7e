// A lease with a limited number of extensions: which rounds of the watchdog take one.
import { beforeEach, afterEach, expect, it, vi } from 'vitest';
import type { Renewable } from '../../../src/core/backend.js';
import { now } from '../../../src/runtime/clock.js';
import { LimitedLease } from '../../../src/locks/red/limited-lease.js';

const LEASE_MS = 6_000;

class FakeLease implements Renewable {
  readonly ownerId = 'me:1';
  readonly ageMs: number;
  readonly isWatched: boolean;
  readonly checkDeadline = vi.fn();
  readonly renewing = vi.fn();
  readonly renewed = vi.fn();

  constructor(isWatched: boolean, ageMs: number) {
    this.isWatched = isWatched;
    this.ageMs = ageMs;
  }
}

function limited(maxExtensions: number, isWatched = true, ageMs = 0): LimitedLease {
  return new LimitedLease(new FakeLease(isWatched, ageMs), maxExtensions, LEASE_MS);
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it('is not extended for the first sixth of the lease, nor for as long after an extension', () => {
  const lease = limited(3);
  expect(lease.isWatched).toBe(false);
  vi.advanceTimersByTime(LEASE_MS / 6);
  expect(lease.isWatched).toBe(true);
  lease.renewed('kept', now(), LEASE_MS);
  expect(lease.isWatched).toBe(false);
  vi.advanceTimersByTime(LEASE_MS / 6);
  expect(lease.isWatched).toBe(true);
});

it('that took long to acquire is due at once', () => {
  expect(limited(1, true, LEASE_MS / 2).isWatched).toBe(true);
});

it('is due after the machine was suspended, which only the wall clock shows', () => {
  const lease = limited(1);
  vi.setSystemTime(Date.now() + LEASE_MS / 2);
  expect(lease.isWatched).toBe(true);
});

it('is not asked for an extension again while one is on its way, unless that takes long', () => {
  const lease = limited(3);
  vi.advanceTimersByTime(LEASE_MS / 3);
  lease.renewing(LEASE_MS);
  expect(lease.isWatched).toBe(false);
  vi.advanceTimersByTime(LEASE_MS / 10);
  expect(lease.isWatched).toBe(true);
});

it('that was asked for twice at a time is one extension', () => {
  const lease = limited(2);
  vi.advanceTimersByTime(LEASE_MS / 3);
  const [first, second] = [now(), now()];
  lease.renewed('kept', first, LEASE_MS);
  lease.renewed('kept', second, LEASE_MS);
  vi.advanceTimersByTime(LEASE_MS / 3);
  expect(lease.isWatched).toBe(true);
});

it('that is looked at all the time is due all the same', () => {
  const lease = limited(1);
  for (let count = 0; count < 10; count++) {
    vi.advanceTimersByTime(LEASE_MS / 60);
    lease.renewed('kept', now(), 0);
  }
  expect(lease.isWatched).toBe(true);
});

it('is not extended more often than it may be', () => {
  const lease = limited(2);
  for (let count = 0; count < 2; count++) {
    vi.advanceTimersByTime(LEASE_MS / 3);
    expect(lease.isWatched).toBe(true);
    lease.renewed('kept', now(), LEASE_MS);
  }
  vi.advanceTimersByTime(LEASE_MS / 3);
  expect(lease.isWatched).toBe(false);
});

it('that is fixed is never extended', () => {
  const lease = limited(2, false);
  vi.advanceTimersByTime(LEASE_MS);
  expect(lease.isWatched).toBe(false);
});
