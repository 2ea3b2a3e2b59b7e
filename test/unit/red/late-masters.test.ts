// A Redlock whose majority does not stand any more is given to further masters only where these have forgotten nobody's vote.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SimulatedMaster, simulatedRedLock } from '../../support/red-simulation.js';

const LEASE_MS = 3_000;

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it.each([
  ['that has been up for long is given the lock', false, undefined, true],
  ['that has restarted is not', true, undefined, false],
  ['that has restarted is not, where the guard says so', true, 2 * LEASE_MS, false],
  ['that has restarted is given it, where there is no guard', true, false, true],
] as const)(
  'while most voters are out of reach, a master %s',
  async (_, hasRestarted, restartGuard, isGiven) => {
    const masters = Array.from({ length: 5 }, () => new SimulatedMaster());
    let reached = [0, 1, 2];
    const { lock } = simulatedRedLock(masters, {
      clientId: 'me',
      lockWatchdogTimeout: LEASE_MS,
      reaches: (master) => reached.includes(master),
      ...(restartGuard !== undefined && { restartGuard }),
    });
    const hold = await lock.acquire();
    reached = [2, 3, 4];
    if (hasRestarted) for (const index of [3, 4]) masters[index]!.restart();
    await vi.advanceTimersByTimeAsync(LEASE_MS / 2);
    const given = isGiven ? hold.ownerId : undefined;
    expect(masters.map(({ holder }) => holder).slice(3)).toEqual([given, given]);
    await vi.advanceTimersByTimeAsync(2 * LEASE_MS);
    expect(hold.signal.aborted).toBe(!isGiven);
    reached = [0, 1, 2, 3, 4];
    void hold.release().catch(() => undefined);
    await vi.advanceTimersByTimeAsync(LEASE_MS);
  },
);

it('a master that was not asked since it has restarted has the lock as soon as it is won', async () => {
  const masters = Array.from({ length: 3 }, () => new SimulatedMaster());
  masters[2]!.restart();
  const { lock } = simulatedRedLock(masters, { clientId: 'me', lockWatchdogTimeout: LEASE_MS });
  const hold = await lock.acquire({ lease: 60_000 });
  await vi.advanceTimersByTimeAsync(1);
  expect(masters.map(({ holder }) => holder)).toEqual(Array(3).fill(hold.ownerId));
  await hold.release();
  expect(masters.map(({ holder }) => holder)).toEqual(Array(3).fill(undefined));
});
