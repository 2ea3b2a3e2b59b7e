// The holds of a client that belong to no scope, and what `unlock()` outside any run undoes.

import { LockLostError } from '../api/errors.js';
import type { HoldInScope } from './held.js';

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
  /** A lock has one owner at a time, so what was lost of it is older than what is held. */
  readonly #losses = new Map<string, Losses>();
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
      const count = (this.#losses.get(id)?.count ?? 0) + 1;
      this.#losses.delete(id); // to the end of the map
      this.#losses.set(id, { count, error });
      const [oldest] = this.#losses.keys();
      if (this.#losses.size > MAX_LOSSES && oldest !== undefined) this.#losses.delete(oldest);
    }
    this.delete(id, hold);
  }

  /** A hold of this lock on which somebody relies. */
  held(id: string): HoldInScope | undefined {
    return this.#holds.get(id)?.[0];
  }

  /** The hold that the next `unlock()` undoes: the oldest of `lock()` and `tryLock()`, unless that was lost. */
  oldest(id: string): HoldInScope | undefined {
    if (this.#losses.has(id)) return undefined;
    return this.#holds.get(id)?.find(({ isUnlockable }) => isUnlockable);
  }

  /** Whether `unlock()` has something to undo, or to tell the loss of. */
  isUnlockable(id: string): boolean {
    return this.#losses.has(id) || this.oldest(id) !== undefined;
  }

  /** Undoes the oldest `lock()` or `tryLock()`, if there is one. */
  async unlock(id: string): Promise<void> {
    this.#throwIfLost(id);
    try {
      await this.oldest(id)?.release();
    } catch (error) {
      if (error instanceof LockLostError) this.#stopRenewing(id);
      throw error;
    }
  }

  #throwIfLost(id: string): void {
    const losses = this.#losses.get(id);
    if (!losses) return;
    if (--losses.count === 0) this.#losses.delete(id);
    this.#stopRenewing(id);
    throw losses.error;
  }

  /**
   * Whose `unlock()` met a loss is not known. If it was meant for a live hold, nobody will undo that one any more: it must
   * not be renewed for ever.
   */
  #stopRenewing(id: string): void {
    for (const hold of this.#holds.get(id) ?? []) if (hold.isUnlockable) hold.stopRenewing();
  }
}
