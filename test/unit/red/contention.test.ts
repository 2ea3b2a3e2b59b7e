// Several who want a Redlock at the same time: votes that are split are tried again soon, and a lock that was taken back is not
// slept over.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Lock } from '../../../src/api/lock.js';
import { SimulatedMaster, simulatedRedLock, type Delays } from '../../support/red-simulation.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** The first of each list is near the first master, and so on: each votes for whom it hears first. */
function contenders(masters: readonly SimulatedMaster[], near: readonly number[][]): Lock[] {
  return near.map((nearOnes, index) => {
    const delays = (master: number): Delays => ({
      upMs: nearOnes.includes(master) ? 1 : 5,
      downMs: 1,
    });
    const options = { clientId: `client-${index}`, restartGuard: false, delays } as const;
    return simulatedRedLock(masters, options).lock;
  });
}

async function allGetIt(locks: readonly Lock[], withinMs: number): Promise<void> {
  let done = 0;
  const turns = locks.map(async (lock) => {
    await lock.withLock(() => undefined);
    done++;
  });
  await vi.advanceTimersByTimeAsync(withinMs);
  expect(done).toBe(locks.length);
  await Promise.all(turns);
}

it.each([
  ['three of three masters', 3, [[0], [1], [2]]],
  ['five masters, two, two and one', 5, [[0, 1], [2, 3], [4]]],
  ['five masters, one each', 5, [[0], [1], [2], [3], [4]]],
])('contenders that split the votes of %s try again within a second', async (_, count, near) => {
  const masters = Array.from({ length: count }, () => new SimulatedMaster());
  await allGetIt(contenders(masters, near), 2_000);
});

it('contenders that fail together try again after random delays', async () => {
  const masters = Array.from({ length: 5 }, () => new SimulatedMaster());
  masters[4]!.isUp = false; // so the votes that split are two and two, and say "no quorum"
  const near = [
    [0, 1],
    [2, 3],
  ];
  await allGetIt(contenders(masters, near), 10_000);
});

it('a waiter does not sleep over the end of an election that failed for late answers', async () => {
  const masters = Array.from({ length: 3 }, () => new SimulatedMaster());
  const late = simulatedRedLock(masters, {
    clientId: 'late',
    restartGuard: false,
    delays: () => ({ upMs: 0, downMs: 200 }),
  });
  const waiter = simulatedRedLock(masters, { clientId: 'waiter', restartGuard: false });

  const failed = expect(late.lock.tryLock(0)).rejects.toMatchObject({ code: 'NO_QUORUM' });
  await vi.advanceTimersByTimeAsync(20); // all masters voted for it, and it does not know
  let hasIt = false;
  const turn = waiter.lock.withLock(() => {
    hasIt = true;
  });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(masters.map(({ holder }) => holder)).toEqual([undefined, undefined, undefined]);
  expect(hasIt).toBe(true);
  await Promise.all([failed, turn]);
});
