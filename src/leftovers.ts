// Owners that may stand on the server though nobody wants them any more: an acquisition whose answer never came,
// a release that did not get through. Removed as soon as the server answers.

import type { LockBackend } from './backend.js';
import { setTimer } from './clock.js';
import { failureKind } from './redis/failure.js';

/** How soon a server that refuses is asked again. */
const RETRY_MS = 1_000;

/** How many are remembered at most; what is beyond ends with its lease. */
const MAX_LEFTOVERS = 10_000;

export class Leftovers {
  readonly #locks = new Map<string, LockBackend>();
  readonly #underWay = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** Removes an owner: now if the server can be reached, else as soon as it can. */
  remove(lock: LockBackend, ownerId: string): void {
    const [oldest] = this.#locks.keys();
    if (this.#locks.size >= MAX_LEFTOVERS && oldest !== undefined) this.#locks.delete(oldest);
    this.#locks.set(ownerId, lock);
    this.#try(lock, ownerId);
  }

  /** Tries again everything that is left: the connection is back, or a while went by. */
  readonly tryAgain = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const [ownerId, lock] of [...this.#locks]) this.#try(lock, ownerId);
  };

  /** Resolves when all that is under way was answered or failed; nothing is tried again after that. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await Promise.all(this.#underWay);
  }

  #try(lock: LockBackend, ownerId: string): void {
    const removal = lock.release(ownerId).then(
      () => {
        this.#locks.delete(ownerId);
      },
      (error: unknown) => {
        const kind = failureKind(error);
        const mayHelp = kind === 'unanswered' || kind === 'transient';
        // Without a connection there is nothing to do until it is back. One who is refused for good cannot remove anything.
        if (!mayHelp && kind !== 'unsent') this.#locks.delete(ownerId);
        if (mayHelp && !this.#isClosed) this.#timer ??= setTimer(this.tryAgain, RETRY_MS);
      },
    );
    this.#underWay.add(removal);
    void removal.finally(() => this.#underWay.delete(removal));
  }
}
