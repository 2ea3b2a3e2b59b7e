// A lease with a limited number of extensions: which rounds of the watchdog take one.
import { beforeEach, afterEach, expect, it, vi } from 'vitest';
import type { Renewable } from '../../../src/backend.js';
import { now } from '../../../src/clock.js';
import { LimitedLease } from '../../../src/quorum/limited-lease.js';

const LEASE_MS = 6_000;

class FakeLease implements Renewable {
  readonly ownerId = 'me:1';
  readonly ageMs = 0;
  readonly isWatched: boolean;
  readonly checkDeadline = vi.fn();
  readonly renewing = vi.fn();
  readonly renewed = vi.fn();

  constructor(isWatched: boolean) {
    this.isWatched = isWatched;
  }
}

function limited(maxExtensions: number, isWatched = true): LimitedLease {
  return new LimitedLease(new FakeLease(isWatched), maxExtensions, LEASE_MS);
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
