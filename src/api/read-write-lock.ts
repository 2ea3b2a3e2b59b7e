// A read-write lock as the caller sees it: two locks, one to read and one to write.

import type { Lock } from './lock.js';

/**
 * Who waits in line for a read-write lock.
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
 * A pair of locks over one resource: many may read it at the same time, and whoever writes it is alone. First come, first served over
 * all processes: who wants to read waits behind a writer that came before, so nobody starves, and readers that wait side by side
 * come in together.
 *
 * Both halves are full {@link Lock}s, each with its own calls: `unlock()` of one does not undo `lock()` of the other, and what one of
 * them says of itself (`isLocked()`, `remainTimeToLive()`, `getHoldCount()`, `forceUnlock()`) is about those who read, or about
 * the one who writes.
 *
 * - **Inside the write lock the read lock can be had**, and kept when the write lock is released: from then on others may read, too,
 *   and nobody has written in between. (Meanwhile the server knows one writer, so `readLock().isLocked()` is false.)
 * - **Inside the read lock the write lock cannot be had**: it would wait for the read lock around it, so it is a
 *   {@link LockUpgradeError} at once. That is so as well where the read lock itself was had inside the write lock, since others in
 *   there may be reading at the same time.
 * - **Parallel branches inside one hold** of the write lock: those that read overlap, one that writes is alone.
 *
 * Outside any `run`, `lock()` calls of the read lock are alike: `unlock()` undoes the one whose lease ends first, or else the oldest.
 *
 * @group Locks
 */
export interface ReadWriteLock {
  /** The name, as it was given to `getReadWriteLock`. */
  readonly name: string;

  /** The half that many may hold at the same time. */
  readLock(): Lock;

  /**
   * The half that one holds alone. Besides what a {@link Lock} throws, every method that acquires throws {@link LockUpgradeError} inside a
   * hold of the read lock.
   */
  writeLock(): Lock;

  /**
   * Who waits in line for either half, the next one first. Walks the whole line: for people, not for hot paths.
   *
   * @throws {@link KeyConflictError} something that is no such lock has the name
   * @throws {@link UnavailableError}
   */
  getWaiters(): Promise<ReadWriteWaiter[]>;
}
