// Owners that may stand on the server though nobody wants them any more: an acquisition whose answer never came,
// a release that did not get through. Removed as soon as the server answers, forgotten when their lease is over.

import { elapsedMs, now, setTimer, type Instant } from './clock.js';
import type { LockBackend } from './backend.js';
import { failureKind } from './redis/failure.js';

const RETRY_MS = 1_000;

interface Leftover {
  readonly lock: LockBackend;
  readonly since: Instant;
  readonly leaseMs: number;
}

export class Leftovers {
  readonly #leftovers = new Map<string, Leftover>();
  readonly #underWay = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** Removes an owner: now if the server can be reached, else as soon as it can. */
  remove(lock: LockBackend, ownerId: string, leaseMs: number): void {
    this.#leftovers.set(ownerId, { lock, since: now(), leaseMs });
    this.#try(ownerId);
  }

  /** Tries again everything that is left: the connection is back, or a while went by. */
  readonly tryAgain = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const ownerId of [...this.#leftovers.keys()]) this.#try(ownerId);
  };

  /** Resolves when all that is under way was answered or failed; nothing is tried again after that. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await Promise.all(this.#underWay);
  }

  #try(ownerId: string): void {
    const leftover = this.#leftovers.get(ownerId);
    if (!leftover) return;
    if (elapsedMs(leftover.since) > leftover.leaseMs) {
      this.#leftovers.delete(ownerId);
      return;
    }
    const removal = leftover.lock.release(ownerId).then(
      () => {
        this.#leftovers.delete(ownerId);
      },
      (error: unknown) => {
        // A key that is something else by now has no owners.
        if (failureKind(error) === 'conflict') this.#leftovers.delete(ownerId);
        else if (!this.#isClosed) this.#timer ??= setTimer(this.tryAgain, RETRY_MS);
      },
    );
    this.#underWay.add(removal);
    void removal.finally(() => this.#underWay.delete(removal));
  }
}
