// The holds of a client that belong to no scope, and what `unlock()` outside any run undoes.

import { LockLostError } from '../api/errors.js';
import type { HoldInScope, ScopedLock } from './held.js';

/** For how many locks a loss is remembered whose `unlock()` has not come: it may never come. */
const MAX_LOSSES = 10_000;

/** What `lock()` and `tryLock()` acquired, was lost, and was not unlocked yet. */
interface Losses {
  count: number;
  error: LockLostError;
}

export class AnonymousHolds {
  /** Live ones, by lock, oldest first. */
  readonly #holds = new Map<string, HoldInScope[]>();
  /**
   * A lock has one owner at a time, so what was lost of it is older than what is held. (Of those who read at the same time nobody
   * knows whose `unlock()` comes first: it is told a loss too early rather than never.)
   */
  readonly #losses = new Map<string, Losses>();
  /** The same of those that only read. */
  readonly #sharedLosses = new Map<string, Losses>();
  /** For locks that somebody waits for: called when one that was not held anonymously is. */
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

  /** Calls back when this lock, which was not held anonymously, is, until the function that it returns is called. One listener a lock. */
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

  /** A hold was lost; the `unlock()` that it is owed must not undo another. */
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

  /** A hold of this lock on which somebody relies. */
  held(id: string): HoldInScope | undefined {
    return this.#holds.get(id)?.[0];
  }

  /**
   * The hold that the next `unlock()` undoes: the oldest of `lock()` and `tryLock()`, unless that was lost. Of those who read at the
   * same time the one that ends first: whoever is still inside must not be left with less than it asked for.
   */
  next(lock: ScopedLock): HoldInScope | undefined {
    if (this.#lossesOf(lock).has(lock.id)) return undefined;
    let next: HoldInScope | undefined;
    for (const hold of this.#holds.get(lock.id) ?? [])
      if (isUndoneBy(hold, lock) && !(next && next.lastsForMs <= hold.lastsForMs)) next = hold;
    return next;
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
   * Whose `unlock()` met a loss is not known. If it was meant for a live hold, nobody will undo that one any more: it must
   * not be renewed for ever.
   */
  #stopRenewing(lock: ScopedLock): void {
    for (const hold of this.#holds.get(lock.id) ?? [])
      if (isUndoneBy(hold, lock)) hold.stopRenewing();
  }

  #lossesOf({ isShared = false }: { readonly isShared?: boolean }): Map<string, Losses> {
    return isShared ? this.#sharedLosses : this.#losses;
  }
}

/** Whether an `unlock()` of this lock, or half of one, may undo it. */
function isUndoneBy(hold: HoldInScope, { isShared = false }: ScopedLock): boolean {
  return hold.isUnlockable && hold.isShared === isShared;
}
