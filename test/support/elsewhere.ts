// Code that has nothing to do with the test that calls it: as another request, or another event.
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';

const outside = AsyncLocalStorage.snapshot();

/** Runs `fn` in an asynchronous context of its own, and not in that of the caller. */
export function elsewhere<T>(fn: () => T): T {
  return outside(() => new AsyncResource('elsewhere').runInAsyncScope(fn));
}
