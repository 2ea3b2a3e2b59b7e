// Of all processes, one runs each tick of a schedule, and no other one runs it again when that one closes.
import { randomUUID } from 'node:crypto';
import { Cron } from 'croner';
import type { Redis } from 'ioredis';
import type { Holdfast } from '../../src/index.js';

/** How late a tick may begin. */
const LATEST_MS = 10 * 60_000;
/** How long a tick stays claimed: longer than clocks differ, and than a tick may be late. */
const CLAIMED_MS = 24 * 60 * 60_000;

export type Task = (signal: AbortSignal) => Promise<void>;

export function runEachTick(
  holdfast: Holdfast,
  redis: Redis,
  name: string,
  pattern: string,
  task: Task,
): Cron {
  const failed = (error: unknown): void => {
    console.error(`${name} failed:`, error);
  };
  return new Cron(pattern, { protect: true, catch: failed }, async (job) => {
    // The time on the schedule, not that on the clock: all processes mean the same tick, however their clocks differ.
    const [tick] = job.previousRuns(1, new Date(Date.now() + 1));
    if (tick) await runTick(holdfast, redis, name, tick, task);
  });
}

export async function runTick(
  holdfast: Holdfast,
  redis: Redis,
  name: string,
  tick: Date,
  task: Task,
): Promise<void> {
  // The lock keeps two runs apart. The claim, which outlives it, keeps a tick from being run again.
  await holdfast.getLock(name).withLock({ wait: LATEST_MS }, async (hold) => {
    const claim = `${name}:${tick.toISOString()}`;
    const me = randomUUID();
    hold.signal.throwIfAborted(); // the event loop may have stood still
    await redis.set(claim, me, 'PX', CLAIMED_MS, 'NX');
    // GET, and not the answer to SET: ioredis sends a SET again whose answer was lost.
    if ((await redis.get(claim)) === me) await task(hold.signal);
  });
}
