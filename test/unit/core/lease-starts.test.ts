// When a lease begins: before the command that confirmed it was sent, however long its answer took.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { deadlineOf } from '../../../src/core/protocol.js';
import { now, PROCESS_CLOCK } from '../../../src/runtime/clock.js';
import { fakeHoldfast, type FakeHoldfast } from '../../support/fake-holdfast.js';

const LEASE_MS = 30_000;
const ONE_WAY_MS = 2_000;
const ROUND_TRIP_MS = 2 * ONE_WAY_MS;
const FIXED_LEASE_MS = 60_000;

let fake: FakeHoldfast;

beforeEach(() => {
  vi.useFakeTimers();
  fake = fakeHoldfast({ lockWatchdogTimeout: LEASE_MS });
});

afterEach(() => {
  vi.useRealTimers();
});

/** From now on each command and each answer takes `ONE_WAY_MS`. */
function slow(oneWayMs = ONE_WAY_MS): void {
  fake.server.travel = () => new Promise((resolve) => setTimeout(resolve, oneWayMs));
}

/** From now on commands and answers take no time, so that locks can be released at once. */
function fast(): void {
  fake.server.travel = () => Promise.resolve();
}

/** What remains of a lease at the moment of the answer to the command that confirmed it. */
function leftMs(leaseMs: number, roundTripMs = ROUND_TRIP_MS): number {
  const sentAt = now(PROCESS_CLOCK);
  return deadlineOf(sentAt, leaseMs).usableMs - roundTripMs;
}

/** The promise settles at this moment, and not before. */
async function answered<T>(promise: Promise<T>): Promise<T> {
  let isSettled = false;
  const settled = promise.finally(() => (isSettled = true));
  await vi.advanceTimersByTimeAsync(ROUND_TRIP_MS - 1);
  expect(isSettled).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(isSettled).toBe(true);
  return await settled;
}

it('an acquired lease counts from before its acquisition was sent', async () => {
  slow();
  const hold = await answered(fake.getLock('a').acquire());
  fast();
  expect(hold.remaining()).toBeCloseTo(leftMs(LEASE_MS));
  await hold.release();
});

it('a renewed lease counts from before its renewal was sent', async () => {
  const hold = await fake.getLock('a').acquire();
  slow();
  await vi.advanceTimersByTimeAsync(LEASE_MS / 3); // the renewal is sent
  expect(fake.told('renewed')).toEqual([]);
  await vi.advanceTimersByTimeAsync(ROUND_TRIP_MS);
  expect(fake.told('renewed')).toHaveLength(1);
  fast();
  expect(hold.remaining()).toBeCloseTo(leftMs(LEASE_MS));
  await hold.release();
});

it('an extended lease counts from before its extension was sent', async () => {
  const hold = await fake.getLock('a').acquire();
  slow();
  await answered(hold.extend(FIXED_LEASE_MS));
  fast();
  expect(hold.remaining()).toBeCloseTo(leftMs(FIXED_LEASE_MS));
  await hold.release();
});

it('a nested lease counts from before its acquisition was sent', async () => {
  const lock = fake.getLock('a');
  await fake.run(async () => {
    const outer = await lock.acquire();
    slow();
    const inner = await answered(lock.acquire({ lease: FIXED_LEASE_MS }));
    fast();
    expect(inner.remaining()).toBeCloseTo(leftMs(FIXED_LEASE_MS));
    await inner.release();
    await outer.release();
  });
});

it('a lease that a repeated command confirms counts from before its repetition was sent', async () => {
  const hold = await fake.getLock('a').acquire();
  slow(10);
  fake.server.fate = () => {
    fake.server.fate = () => 'answered';
    return 'lost reply';
  };
  const extended: number[] = [];
  void hold.extend(FIXED_LEASE_MS).then(() => extended.push(FIXED_LEASE_MS));
  while (extended.length === 0) await vi.advanceTimersByTimeAsync(1);
  fast();
  expect(fake.server.commands.filter((command) => command.startsWith('reenter'))).toHaveLength(2);
  expect(hold.remaining()).toBeCloseTo(leftMs(FIXED_LEASE_MS, 20));
  await hold.release();
});
