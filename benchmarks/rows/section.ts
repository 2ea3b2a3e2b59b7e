// One slice of a contended lock: callers of several processes enter one critical section for a while.

import type { Redis } from 'ioredis';
import { monotonicMs } from '../support/clock.js';
import { serverUsageOf } from '../support/server-usage.js';
import { jainIndex, quantile, sum } from '../support/statistics.js';
import type { Crowd, Target } from '../worker/messages.js';
import type { WorkerProcess } from '../worker/worker-process.js';

/** Enough for an order to reach every process. */
const HEAD_START_MS = 30;

/** So many callers of a process, on a lock of their choice. */
export interface Party {
  readonly worker: WorkerProcess;
  readonly target: Target;
  readonly callers: number;
}

export interface Section {
  /** By party. */
  readonly crowds: readonly Crowd[];
  readonly figures: {
    /** Hand-overs per second. */
    readonly rate: number;
    readonly jain: number;
    readonly p50: number;
    readonly p99: number;
    readonly longest: number;
    /** Per acquisition, without what the section itself sends. */
    readonly scripts: number;
    readonly commands: number;
    readonly violations: number;
    readonly stuck: number;
  };
}

/** `counter` is a connection to the server at `counterUrl`; the commands counted are those that this one executes. */
export async function section(
  parties: readonly Party[],
  { name, counter, counterUrl, durationMs }: SectionOptions,
): Promise<Section> {
  const { result: crowds, used } = await serverUsageOf(counter, async () => {
    const fromMs = monotonicMs() + HEAD_START_MS;
    const toMs = fromMs + durationMs;
    return await Promise.all(
      parties.map(async ({ worker, target, callers }) => {
        await worker.ask({ do: 'crowd', ...target, name, callers, fromMs, toMs, counterUrl });
        return await worker.ask({ do: 'disband', name });
      }),
    );
  });
  const counted = Number(await counter.get(`${name}:counter`));
  await counter.del(`${name}:counter`);
  const entries = sum(crowds.map((crowd) => crowd.entries));
  const stays = crowds.flatMap((crowd) => crowd.stays);
  const waitsMs = crowds.flatMap((crowd) => crowd.waitsMs);
  return {
    crowds,
    figures: {
      rate: (sum(stays) * 1_000) / durationMs,
      jain: jainIndex(stays),
      p50: quantile(waitsMs, 0.5),
      p99: quantile(waitsMs, 0.99),
      longest: quantile(waitsMs, 1),
      scripts: used.scripts / entries,
      commands: (used.commands - 2 * entries) / entries,
      // Two that read the same number: one of them wrote over the other.
      violations: entries - counted,
      stuck: sum(crowds.map((crowd) => crowd.stuck)),
    },
  };
}

export interface SectionOptions {
  /** Of the lock; never used before. */
  readonly name: string;
  readonly counter: Redis;
  readonly counterUrl: string;
  readonly durationMs: number;
}
