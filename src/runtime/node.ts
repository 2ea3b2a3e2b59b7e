// Answers without I/O come in microtasks: a loop of such calls would let no timer and no socket of the process run. So after many of them
// in one turn of the event loop, the next answer waits for the next turn. They are counted, not timed: that needs no clock, and a repeated
// run gets the same turns.

import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate } from 'node:timers'; // a test may have faked the global one

/** How many such answers one turn may give: they take 0.1 to 5 ms. */
const MOST_A_TURN = 100;

/** How many this turn has given so far. */
let given = 0;

/** Resolves in the next turn; undefined: nothing waits for it. */
let nextTurn: Promise<void> | undefined;
let beginNextTurn: (() => void) | undefined;

/**
 * Resolves when an answer may be given; undefined: now.
 *
 * @param weight - how much it counts: an answer that takes less time than an error counts less
 */
export function pauseIfLong(weight = 1): Promise<void> | undefined {
  if (given === 0) setImmediate(turnEnds);
  given += weight;
  if (given <= MOST_A_TURN) return undefined;
  return (nextTurn ??= new Promise((resolve) => (beginNextTurn = resolve)));
}

/** Resolves to the error when it may be thrown. */
export async function inTurn<Failure>(error: Failure): Promise<Failure> {
  await pauseIfLong();
  return error;
}

/** Turns an error that `call` throws before it returns a promise into a rejection. (An async function would make one more promise.) */
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
  nextTurn = undefined;
  beginNextTurn?.();
  beginNextTurn = undefined;
}

// Runs work that serves many callers outside the asynchronous context of the caller that happens to start it.

// Checked here, since this is the first thing that holdfast needs when it is imported and an old Node.js lacks.
assertRuntime();

/** Runs `fn` outside every asynchronous context: those of our scopes, and the user's own. */
export const inOwnContext: <T>(fn: () => T) => T = AsyncLocalStorage.snapshot();

// Says which Node.js is needed, before an older one fails with an obscure error.

/** Checks features, not the version: the Node.js versions that Bun and Deno name say nothing. */
export function assertRuntime(): void {
  if (typeof String.prototype.isWellFormed === 'function') return;
  throw new Error(
    `holdfast needs Node.js 20.19 or newer; this is ${process.versions.node}: update Node.js`,
  );
}
