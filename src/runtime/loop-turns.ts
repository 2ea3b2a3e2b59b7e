// Answers without I/O come in microtasks: a loop of calls that are answered so would let no timer and no socket of the process run. So
// such an answer waits for the next turn of the event loop where there were many in this one. They are counted, not timed: no clock is
// needed, and whoever repeats a run gets the same turns.

import { setImmediate } from 'node:timers'; // a test may have faked the global one

/** How many such answers one turn gives: they take 0.1 to 5 ms. */
const MOST_A_TURN = 100;

/** How many it has given so far. */
let given = 0;

/** Resolves when an answer may be given; undefined: now. */
export function pauseIfLong(): Promise<void> | undefined {
  if (given === 0) setImmediate(turnEnds);
  if (given++ < MOST_A_TURN) return undefined;
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
  given = 0;
}
