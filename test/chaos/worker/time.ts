// The time that callers live in: the machine's, or that of a simulation.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { machineMs } from '../../support/time.js';

export interface WorkTime {
  /** The time that the journal is written in, in milliseconds. */
  nowMs(): number;
  sleep(ms: number): Promise<void>;
  /** Resolves when everything of this turn is sent, and before anything is answered. */
  nextTurn(): Promise<void>;
  /** A signal that aborts after so many milliseconds. */
  timeout(ms: number): AbortSignal;
}

export const MACHINE_TIME: WorkTime = {
  nowMs: machineMs,
  sleep: async (ms) => {
    await sleep(ms);
  },
  nextTurn: () => nextTurn(),
  timeout: (ms) => AbortSignal.timeout(ms),
};
