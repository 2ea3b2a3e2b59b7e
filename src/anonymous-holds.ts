// The holds of a client that belong to no scope, by lock, oldest first.

import { LockLostError, LockNotHeldError } from './errors.js';
import type { Hold } from './hold.js';
import type { LockBackend } from './backend.js';

export class AnonymousHolds {
  readonly #holds = new Map<string, Hold[]>();

  add(id: string, hold: Hold): void {
    const holds = this.#holds.get(id);
    if (holds) holds.push(hold);
    else this.#holds.set(id, [hold]);
  }

  delete(id: string, hold: Hold): void {
    const holds = this.#holds.get(id);
    const index = holds?.indexOf(hold) ?? -1;
    if (index >= 0) holds?.splice(index, 1);
    if (holds?.length === 0) this.#holds.delete(id);
  }

  /** A hold of this lock on which somebody may still rely. */
  held(id: string): Hold | undefined {
    for (const hold of this.#holds.get(id) ?? []) if (hold.remaining() > 0) return hold;
    return undefined;
  }

  /** The hold that the next `unlock()` undoes: the oldest of `lock()` and `tryLock()`. */
  oldest(id: string): Hold | undefined {
    for (const hold of this.#holds.get(id) ?? []) if (hold.isUnlockable) return hold;
    return undefined;
  }

  /** Undoes the oldest `lock()` or `tryLock()`. */
  async unlock(lock: LockBackend): Promise<void> {
    const hold = this.oldest(lock.id);
    if (!hold) {
      throw new LockNotHeldError(
        `lock "${lock.name}" cannot be unlocked: no lock() or tryLock() outside a run is left to undo`,
        { lockName: lock.name },
      );
    }
    this.delete(lock.id, hold);
    try {
      await hold.release();
    } catch (error) {
      // Whose unlock() this was is not known. If it was meant for a live hold, nobody will undo that one any more:
      // it must not be renewed for ever.
      if (error instanceof LockLostError) this.#stopRenewing(lock.id);
      throw error;
    }
  }

  #stopRenewing(id: string): void {
    for (const hold of this.#holds.get(id) ?? []) if (hold.isUnlockable) hold.stopRenewing();
  }
}
