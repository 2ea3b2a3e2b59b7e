// MultiLocks that share members, in several processes: no deadlock whatever the order of names, and no starvation. Members may be Redlocks.
import { describe, expect, inject, it } from 'vitest';
import {
  expectNoOverlap,
  inProcesses,
  waitsOf,
  type MultiTask,
} from '../../support/multi-locks.js';
import { startMasters } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

/** Longer than these tests take on a busy machine, shorter than the 30 s lease whose end would resolve a deadlock. */
const DEADLOCK_MS = 60_000;

/** How long a Redlock of children/multi-caller.ts waits for the answer of one master. */
const NODE_TIMEOUT_MS = 1_000;

function uniqueNames(count: number): string[] {
  return Array.from({ length: count }, () => uniqueName());
}

it('two processes that name the same locks in opposite orders do not deadlock', async () => {
  const names = uniqueNames(4);
  const task = { type: 'same', callers: 2, rounds: 100, holdMs: 0 } as const;
  const orders: MultiTask[] = [names, names.toReversed()].map((each) => ({ ...task, names: each }));
  const { turns } = await inProcesses(inject('redisUrl'), orders, DEADLOCK_MS);
  expect(turns).toHaveLength(2 * task.callers * task.rounds);
  expectNoOverlap(turns);
}, 60_000);

/** `rounds` calls by each of 32 callers in 4 processes, over random pairs of 10 names. */
async function expectNobodyStarves(rounds: number, medians: number): Promise<void> {
  const names = uniqueNames(10);
  const task: MultiTask = { type: 'pairs', names, callers: 8, rounds, holdMs: 2 };
  const tasks = [1, 2, 3, 4].map(() => task);
  const { turns, longestLagMs } = await inProcesses(inject('redisUrl'), tasks, DEADLOCK_MS);
  expect(turns).toHaveLength(tasks.length * task.callers * task.rounds);
  expectNoOverlap(turns);
  const { medianMs, longestMs } = waitsOf(turns);
  const figures = `${turns.length} waits: median ${medianMs} ms, longest ${longestMs} ms, a process stood still for ${longestLagMs} ms`;
  expect(longestMs, figures).toBeLessThan(medians * medianMs + longestLagMs);
}

it('of 32 callers of random pairs, in 4 processes, none waits longer than 20 medians', async () => {
  await expectNobodyStarves(1, 20);
}, 60_000);

// A caller that needs two locks at once, and holds nothing while waiting, needs luck: under endless load, on a busy machine, the unluckiest
// of hundreds may need more rounds.
it('of 800 calls for random pairs, without a pause between them, none starves', async () => {
  await expectNobodyStarves(25, 50);
}, 60_000);

describe('of Redlocks', () => {
  it('two processes that name the same ones in opposite orders do not deadlock', async () => {
    await using masters = await startMasters(3);
    const names = uniqueNames(3);
    const task = { type: 'same', callers: 2, rounds: 25, holdMs: 0 } as const;
    const orders: MultiTask[] = [names, names.toReversed()].map((each) => ({
      ...task,
      names: each,
    }));
    const urls = masters.map(({ url }) => url);
    const { turns } = await inProcesses(urls, orders, DEADLOCK_MS);
    expect(turns).toHaveLength(2 * task.callers * task.rounds);
    expectNoOverlap(turns);
  }, 60_000);

  it.each([
    ['all of five masters are there', 0, 0],
    ['one of them is dead, and another silent', 1, 1],
  ])(
    'callers of random pairs, in 3 processes, all get their turns while %s',
    async (_, dead, silent) => {
      await using masters = await startMasters(5);
      const urls = masters.map(({ url }) => url);
      for (const master of masters.slice(0, dead)) await master.kill();
      const asleep = masters.slice(dead, dead + silent);
      for (const master of asleep) await master.pause();
      const task: MultiTask = {
        type: 'pairs',
        names: uniqueNames(5),
        callers: 4,
        rounds: 10,
        holdMs: 2,
      };
      const tasks = [1, 2, 3].map(() => task);
      const { turns, longestLagMs } = await inProcesses(urls, tasks, DEADLOCK_MS);
      for (const master of asleep) await master.resume();
      expect(turns).toHaveLength(tasks.length * task.callers * task.rounds);
      expectNoOverlap(turns);
      const { medianMs, longestMs } = waitsOf(turns);
      const figures = `${turns.length} waits: median ${medianMs} ms, longest ${longestMs} ms, a process stood still for ${longestLagMs} ms`;
      // Until the client knows that a master is silent, a vote that the master could decide takes the full node timeout.
      const silenceMs = silent * NODE_TIMEOUT_MS;
      expect(longestMs, figures).toBeLessThan(50 * medianMs + longestLagMs + silenceMs);
    },
    60_000,
  );
});
