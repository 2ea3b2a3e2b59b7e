// Somebody who wants a reentrant lock.

import type { AcquireReply } from '../../core/replies.js';
import type { Wanted } from '../../core/backend.js';
import type { TimeLimit } from '../../runtime/clock.js';
import { LineCandidate } from '../../core/line-candidate.js';
import type { Line } from '../../waiting/line.js';

/** What a candidate needs of its lock. */
export interface ContestedLock {
  acquire(ownerId: string, leaseMs: number, limit?: TimeLimit): Promise<AcquireReply>;
  line(): Line;
}

export class ReentrantCandidate extends LineCandidate {
  readonly ownerId: string;
  readonly #lock: ContestedLock;

  constructor(lock: ContestedLock, ownerId: string, wanted: Wanted) {
    super(wanted, () => lock.line());
    this.#lock = lock;
    this.ownerId = ownerId;
  }

  try(): Promise<AcquireReply> {
    return this.#lock.acquire(this.ownerId, this.wanted.leaseMs, this.wanted.limit);
  }
}
