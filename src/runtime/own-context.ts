// Work that serves many callers, and so must not run in the asynchronous context of whoever happens to start it.

import { AsyncLocalStorage } from 'node:async_hooks';
import { assertRuntime } from './required-runtime.js';

// Here, since this is the first of what is missing on an old Node.js that is needed as soon as holdfast is imported.
assertRuntime();

/** Runs `fn` outside every asynchronous context: those of our scopes, and the user's own. */
export const inOwnContext: <T>(fn: () => T) => T = AsyncLocalStorage.snapshot();
