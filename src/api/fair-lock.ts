// A fair lock as the caller sees it: a lock, and a look at the line for it.

import type { Lock } from './lock.js';

/**
 * A reentrant lock that is handed over in the order in which its waiters joined the line, over all processes. A waiter
 * that dies, or gives up, does not hold up the others.
 *
 * It is the same lock as the one that `getLock` returns for this name, but only calls of a fair lock stand in line.
 *
 * @group Locks
 */
export interface FairLock extends Lock {
  /**
   * How many wait in line, over all processes. Walks the whole line: for people, not for hot paths.
   *
   * @throws {@link KeyConflictError} something that is no such lock has the name
   * @throws {@link UnavailableError}
   */
  getQueueLength(): Promise<number>;

  /**
   * Who waits in line, the next one first: owners, `<clientId>:<n>`. Walks the whole line: for people, not for hot paths.
   *
   * @throws {@link KeyConflictError} something that is no such lock has the name
   * @throws {@link UnavailableError}
   */
  getWaiters(): Promise<string[]>;
}
