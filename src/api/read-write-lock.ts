// A read-write lock as the caller sees it: two locks, one to read and one to write.

import type { Lock } from './lock.js';

/**
 * A waiter in the queue of a read-write lock.
 *
 * @group Locks
 */
export interface ReadWriteWaiter {
  /** The owner that waits: `<clientId>:<n>`. */
  readonly ownerId: string;
  /** Which half it wants. */
  readonly wants: 'read' | 'write';
}

/**
 * A pair of locks over one resource: many owners may read at the same time, and one writes alone. First come, first served over all
 * processes: a reader waits behind a writer that came before, so neither side starves. Readers that wait next to each other get in
 * together.
 *
 * Both halves are full {@link Lock}s. `unlock()` of one does not undo `lock()` of the other. `isLocked()`, `remainTimeToLive()`,
 * `getHoldCount()` and `forceUnlock()` of a half are about its readers, or about its writer.
 *
 * - **Inside the write lock you may take the read lock**, and keep it when you release the write lock: from then on others may read, too,
 *   and nobody has written in between. (Until then the server knows one writer, so `readLock().isLocked()` is false.)
 * - **Inside the read lock you cannot take the write lock.** It would wait for the read lock around it, so it throws a
 *   {@link LockUpgradeError} at once; also where the read lock itself was taken inside the write lock, since others in there may be
 *   reading.
 * - **Parallel branches inside one hold of the write lock:** those that read overlap; one that writes is alone.
 *
 * Outside any `run`, the `unlock()` of code without a `lock()` of its own undoes the read lock whose lease ends first, or else the oldest.
 *
 * @example
 * ```ts
 * const catalog = holdfast.getReadWriteLock('catalog');
 * await catalog.readLock().withLock(async () => {
 *   // others may read, too; nobody writes
 * });
 * ```
 *
 * @group Locks
 */
export interface ReadWriteLock {
  /** The name that was given to `getReadWriteLock`. */
  readonly name: string;

  /** The half for readers, which many owners may hold at the same time. */
  readLock(): Lock;

  /**
   * The half for one writer, which its owner holds alone. Inside a hold of the read lock, every method that acquires it throws
   * {@link LockUpgradeError}.
   */
  writeLock(): Lock;

  /**
   * The owners that wait in the queue for either half, the next one first. Walks the whole queue: for debugging, not for hot paths.
   *
   * @throws {@link KeyConflictError} another kind of lock, or other data, has the name
   * @throws {@link UnavailableError} Redis did not answer within `commandTimeout`, or refuses
   * @throws {@link ClosedError} the client is closed
   */
  getWaiters(): Promise<ReadWriteWaiter[]>;
}
