// The holds of a client that belong to no scope, and what `unlock()` outside any run undoes.

import { LockLostError } from '../api/errors.js';
import type { HoldInScope, ScopedLock } from './holder.js';

/** For how many locks a loss is remembered whose `unlock()` has not come: it may never come. */
const MAX_LOSSES = 10_000;

/** The losses of one lock acquired by `lock()` or `tryLock()`: how many no `unlock()` was told of yet, and the error of the latest. */
interface Losses {
  count: number;
  error: LockLostError;
}

export class AnonymousHolds {
  /** The live holds, by lock, oldest first. */
  readonly #holds = new Map<string, HoldInScope[]>();
  /** The losses of locks that one owner has at a time: what was lost is older than what is held, so the next `unlock()` is told of it. */
  readonly #losses = new Map<string, Losses>();
  /** The losses of read locks. Nobody knows whose `unlock()` comes first: it is told of a loss too early rather than never. */
  readonly #sharedLosses = new Map<string, Losses>();
  /** For locks that somebody waits for: called when a lock comes to be held anonymously. */
  readonly #listeners = new Map<string, (hold: HoldInScope) => void>();

  add(id: string, hold: HoldInScope): void {
    const holds = this.#holds.get(id);
    if (holds) {
      holds.push(hold);
      return;
    }
    this.#holds.set(id, [hold]);
    this.#listeners.get(id)?.(hold);
  }

  /** Calls `listener` whenever this lock comes to be held anonymously, until the returned function is called. One listener a lock. */
  onHeld(id: string, listener: (hold: HoldInScope) => void): () => void {
    this.#listeners.set(id, listener);
    return () => this.#listeners.delete(id);
  }

  delete(id: string, hold: HoldInScope): void {
    const holds = this.#holds.get(id);
    const index = holds?.indexOf(hold) ?? -1;
    if (index >= 0) holds?.splice(index, 1);
    if (holds?.length === 0) this.#holds.delete(id);
  }

  /** A hold was lost; the `unlock()` that is still owed to it must not undo another hold. */
  lost(id: string, hold: HoldInScope, error: LockLostError): void {
    if (hold.isUnlockable) {
      const losses = this.#lossesOf(hold);
      const count = (losses.get(id)?.count ?? 0) + 1;
      losses.delete(id); // to the end of the map
      losses.set(id, { count, error });
      const [oldest] = losses.keys();
      if (losses.size > MAX_LOSSES && oldest !== undefined) losses.delete(oldest);
    }
    this.delete(id, hold);
  }

  /** The oldest live hold of this lock. */
  held(id: string): HoldInScope | undefined {
    return this.#holds.get(id)?.[0];
  }

  /**
   * The hold that the next `unlock()` undoes: the oldest of `lock()` and `tryLock()`, unless that was lost. Of several read locks it is the
   * hold whose lease ends first: whoever is still inside must not be left with a shorter lease than it asked for.
   */
  next(lock: ScopedLock): HoldInScope | undefined {
    if (this.#lossesOf(lock).has(lock.id)) return undefined;
    let next: HoldInScope | undefined;
    for (const hold of this.#holds.get(lock.id) ?? [])
      if (isUndoneBy(hold, lock) && !(next && next.lastsForMs <= hold.lastsForMs)) next = hold;
    return next;
  }

  /** What the `unlock()` that belongs to this hold would find: the hold, its loss, or nothing any more. */
  owed(lock: ScopedLock, hold: HoldInScope): 'held' | 'lost' | undefined {
    if (!hold.isUnlockable) return undefined;
    if (this.#holds.get(lock.id)?.includes(hold)) return 'held';
    return this.#lossesOf(lock).has(lock.id) ? 'lost' : undefined;
  }

  /** Whether `unlock()` has something to undo, or to tell the loss of. */
  isUnlockable(lock: ScopedLock): boolean {
    return this.#lossesOf(lock).has(lock.id) || this.next(lock) !== undefined;
  }

  /** Undoes the next `lock()` or `tryLock()`, if there is one. */
  async unlock(lock: ScopedLock): Promise<void> {
    this.#throwIfLost(lock);
    try {
      await this.next(lock)?.release();
    } catch (error) {
      if (error instanceof LockLostError) this.#stopRenewing(lock);
      throw error;
    }
  }

  #throwIfLost(lock: ScopedLock): void {
    const losses = this.#lossesOf(lock).get(lock.id);
    if (!losses) return;
    if (--losses.count === 0) this.#lossesOf(lock).delete(lock.id);
    this.#stopRenewing(lock);
    throw losses.error;
  }

  /**
   * Whose `unlock()` was told of the loss is not known. If it was meant for a live hold, nobody will undo that one any more: it must not be
   * renewed for ever.
   */
  #stopRenewing(lock: ScopedLock): void {
    for (const hold of this.#holds.get(lock.id) ?? [])
      if (isUndoneBy(hold, lock)) hold.stopRenewing();
  }

  #lossesOf({ isShared = false }: { readonly isShared?: boolean }): Map<string, Losses> {
    return isShared ? this.#sharedLosses : this.#losses;
  }
}

/** Whether an `unlock()` of this lock, or of this half of a read-write lock, may undo the hold. */
function isUndoneBy(hold: HoldInScope, { isShared = false }: ScopedLock): boolean {
  return hold.isUnlockable && hold.isShared === isShared;
}
