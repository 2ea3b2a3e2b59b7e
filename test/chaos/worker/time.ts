// The time that callers live in: the machine's, or that of a simulation; and the clocks of a worker as the library sees them.
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

// The clocks of a worker, as the library sees them: the wall clock steps, the monotonic one stands still. Ours goes on.

const trueWall = Date.now.bind(Date);
const trueMonotonic = performance.now.bind(performance);
let wallAheadMs = 0;
let suspendedMs = 0;

export function patchClocks(): void {
  Date.now = () => trueWall() + wallAheadMs;
  performance.now = () => trueMonotonic() - suspendedMs;
}

/** From now on the wall clock is so much ahead of the true time. */
export function stepWallClock(ms: number): void {
  wallAheadMs = ms;
}

/** The event loop stands still. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** The machine is suspended: nothing runs, and the monotonic clock does not go on. */
export function suspend(ms: number): void {
  block(ms);
  suspendedMs += ms;
}
