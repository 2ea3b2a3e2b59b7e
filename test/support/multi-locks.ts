// MultiLocks under test: one of three locks for each test, and processes whose callers take some of the same names.
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, expect } from 'vitest';
import type { Holdfast, Lock } from '../../src/index.js';
import { startChild, type Child } from './child.js';
import { newClient } from './clients.js';
import { uniqueName } from './unique-name.js';

interface MultiMembers {
  readonly client: Holdfast;
  readonly other: Holdfast;
  /** The members, of the first client. */
  readonly multi: Lock;
  readonly names: readonly string[];
  readonly a: Lock;
  /** The only fair one. */
  readonly b: Lock;
  readonly c: Lock;
  /** The same locks, as the other client sees them. */
  readonly others: { readonly multi: Lock; readonly a: Lock; readonly b: Lock; readonly c: Lock };
}

/** A new one for each test of the file; returns the current test's. Leases are 30 s, so that none ends by itself. */
export function membersPerTest(): () => MultiMembers {
  let current: MultiMembers;
  beforeEach(() => {
    const options = { lockWatchdogTimeout: 30_000 };
    const [client, other] = [newClient(options), newClient(options)];
    const names = ['a', 'b', 'c'].map((label) => uniqueName(label));
    const mine = locksOf(client, names);
    current = { client, other, names, ...mine, others: locksOf(other, names) };
  });
  afterEach(async () => {
    await Promise.all([current.client.close(), current.other.close()]);
  });
  return () => current;
}

/** For each name, the owner of the lock and its hold count; {} where it is free. */
export async function heldOnServer(
  redis: Redis,
  names: readonly string[],
): Promise<Record<string, string>[]> {
  return await Promise.all(names.map((name) => redis.hgetall(name)));
}

function locksOf(
  client: Holdfast,
  [first, second, third]: readonly string[],
): MultiMembers['others'] {
  const [a, b, c] = [client.getLock(first!), client.getFairLock(second!), client.getLock(third!)];
  return { a, b, c, multi: client.getMultiLock(a, b, c) };
}

// Processes whose callers take MultiLocks of the same names: children/multi-caller.ts, from the test's side.

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

interface MultiOutcome {
  readonly turns: readonly MultiTurn[];
  /** The longest time in which one of the processes could not run. */
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
