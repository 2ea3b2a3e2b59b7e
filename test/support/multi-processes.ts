// Processes whose callers take MultiLocks of the same names: children/multi-caller.ts, from the test's side.
import { expect } from 'vitest';
import { startChild, type Child } from './child.js';

/** One caller's time with a MultiLock, in machineMs(). */
export interface MultiTurn {
  readonly names: readonly string[];
  readonly askedMs: number;
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface MultiTask {
  readonly type: 'pairs' | 'same';
  /** In this order, for `same`. */
  readonly names: readonly string[];
  readonly callers: number;
  readonly rounds: number;
  readonly holdMs: number;
}

export interface MultiOutcome {
  readonly turns: readonly MultiTurn[];
  /** The longest time in which one of the processes was kept from running. */
  readonly longestLagMs: number;
}

/**
 * Gives each task to a process of its own, all at the same time; resolves when all are done.
 *
 * @param urls - of one server; of several: each name is a Redlock over them
 */
export async function inProcesses(
  urls: string | readonly string[],
  tasks: readonly MultiTask[],
  timeoutMs: number,
): Promise<MultiOutcome> {
  const env = { HOLDFAST_TEST_REDIS_URL: [urls].flat().join(' ') };
  const children = tasks.map(() => startChild('multi-caller.ts', env));
  try {
    await Promise.all(children.map((child) => child.next('ready')));
    const outcomes = await Promise.all(
      children.map((child, index) => outcomeOf(child, tasks[index]!, timeoutMs)),
    );
    return {
      turns: outcomes.flatMap(({ turns }) => turns),
      longestLagMs: Math.max(...outcomes.map(({ longestLagMs }) => longestLagMs)),
    };
  } finally {
    await Promise.all(children.map((child) => child.kill()));
  }
}

/** Fails when two turns with a name in common overlap. */
export function expectNoOverlap(turns: readonly MultiTurn[]): void {
  const names = new Set(turns.flatMap((turn) => turn.names));
  for (const name of names) {
    const own = turns.filter((turn) => turn.names.includes(name));
    const sorted = own.sort((one, other) => one.fromMs - other.fromMs);
    for (const [index, turn] of sorted.entries()) {
      const overlapMs = (sorted[index - 1]?.untilMs ?? 0) - turn.fromMs;
      expect(overlapMs, `${name}: came in too early by so many ms`).toBeLessThanOrEqual(0);
    }
  }
}

/** How long callers waited, in milliseconds. */
export function waitsOf(turns: readonly MultiTurn[]): { medianMs: number; longestMs: number } {
  const waitsMs = turns.map(({ askedMs, fromMs }) => fromMs - askedMs).sort((a, b) => a - b);
  return { medianMs: waitsMs[Math.floor(waitsMs.length / 2)]!, longestMs: waitsMs.at(-1)! };
}

async function outcomeOf(child: Child, task: MultiTask, timeoutMs: number): Promise<MultiOutcome> {
  child.send({ ...task });
  const outcome = await child.next('done', timeoutMs);
  expect(outcome['error']).toBeUndefined();
  return outcome as unknown as MultiOutcome;
}
