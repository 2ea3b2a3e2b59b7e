// What this process takes of the machine.

import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicMs } from '../support/clock.js';
import type { Usage } from './messages.js';

export function usage(): Usage {
  const { user, system } = process.cpuUsage();
  return { atMs: monotonicMs(), cpuMicros: user + system };
}

/** What is still reachable: collected twice, with a pause for what is freed on a later turn. */
export async function heapBytes(): Promise<number> {
  if (!gc) throw new Error('this process was started without --expose-gc');
  gc();
  await sleep(50);
  gc();
  return process.memoryUsage().heapUsed;
}
