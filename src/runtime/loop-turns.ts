// Answers without I/O come in microtasks: a loop of calls that are answered so would let no timer and no socket of the process run. So
// such an answer waits for the next turn of the event loop where they have filled one.

import { setImmediate } from 'node:timers'; // a test may have faked the global one

/** For how long one turn may go on with such answers, in milliseconds. */
const LONG_MS = 5;

/** When the first such answer of this turn was given, on the monotonic clock; undefined: there was none. */
let sinceMs: number | undefined;

/** Resolves when an answer may be given; undefined: now. */
export function pauseIfLong(): Promise<void> | undefined {
  const nowMs = performance.now();
  if (sinceMs === undefined) {
    sinceMs = nowMs;
    setImmediate(turnEnds);
    return undefined;
  }
  if (nowMs - sinceMs < LONG_MS) return undefined;
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** Resolves to the error when it may be thrown. */
export async function inTurn<Failure>(error: Failure): Promise<Failure> {
  await pauseIfLong();
  return error;
}

/** What `call` throws before it returns a promise becomes a rejection. (An async function would make a promise of its own.) */
export function rejecting<T>(call: () => Promise<T>): Promise<T> {
  try {
    return call();
  } catch (error) {
    return inTurn(error).then((failure) => {
      throw failure;
    });
  }
}

function turnEnds(): void {
  sinceMs = undefined;
}
