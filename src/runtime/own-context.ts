// Work that serves many callers, and so must not run in the asynchronous context of whoever happens to start it.

import { AsyncLocalStorage } from 'node:async_hooks';

/** Runs `fn` outside every asynchronous context: those of our scopes, and the user's own. */
export const inOwnContext: <T>(fn: () => T) => T = AsyncLocalStorage.snapshot();
