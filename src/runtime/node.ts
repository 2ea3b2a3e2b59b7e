// Answers without I/O come in microtasks: a loop of calls that are answered so would let no timer and no socket of the process run. So
// such an answer waits for the next turn of the event loop where there were many in this one. They are counted, not timed: no clock is
// needed, and whoever repeats a run gets the same turns.

import { setImmediate } from 'node:timers';
import { AsyncLocalStorage } from 'node:async_hooks';

// a test may have faked the global one

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

// Work that serves many callers, and so must not run in the asynchronous context of whoever happens to start it.

// Here, since this is the first of what is missing on an old Node.js that is needed as soon as holdfast is imported.
assertRuntime();

/** Runs `fn` outside every asynchronous context: those of our scopes, and the user's own. */
export const inOwnContext: <T>(fn: () => T) => T = AsyncLocalStorage.snapshot();

// Says which Node.js is needed, before something that an older one lacks fails in words that do not tell.

/** By what is there, not by a version: Bun and Deno name versions of Node.js that tell nothing. */
export function assertRuntime(): void {
  if (typeof String.prototype.isWellFormed === 'function') return;
  throw new Error(
    `holdfast needs Node.js 20.19 or newer; this is ${process.versions.node}: update Node.js`,
  );
}
