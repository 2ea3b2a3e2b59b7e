// Somebody who wants a reentrant lock: tries, and between tries waits among those of the same client, of whom one at a
// time tries when the lock may be free.

import type { AcquireReply, Candidate, Wanted } from '../backend.js';
import type { SeenHolder } from '../errors.js';
import type { Line, Place } from '../waiting/line.js';

/** What a candidate needs of its lock. */
export interface ContestedLock {
  acquire(ownerId: string, leaseMs: number): Promise<AcquireReply>;
  /** Where those of this client wait who did not get it. */
  line(): Line;
}

const NOW = Promise.resolve();

export class ReentrantCandidate implements Candidate {
  readonly ownerId: string;
  readonly #lock: ContestedLock;
  readonly #wanted: Wanted;
  #place: Place | undefined;

  constructor(lock: ContestedLock, ownerId: string, wanted: Wanted) {
    this.#lock = lock;
    this.ownerId = ownerId;
    this.#wanted = wanted;
  }

  try(): Promise<AcquireReply> {
    return this.#lock.acquire(this.ownerId, this.#wanted.leaseMs);
  }

  wait({ holderTtlMs }: SeenHolder, triedAtMs: number): void {
    if (this.#place) this.#place.stillHeld(holderTtlMs);
    else if (this.#wanted.mayWait) this.#place = this.#lock.line().join(triedAtMs, holderTtlMs);
  }

  get isUp(): boolean {
    return this.#place?.isUp ?? true;
  }

  get woken(): Promise<void> {
    return this.#place?.woken ?? NOW;
  }

  /** Nothing is left on the server: a try that was answered with "held" left nothing there. */
  leave(leaseMs?: number): boolean {
    this.#place?.leave(leaseMs);
    return false;
  }
}
