// A caller who wants a reentrant lock.

import { LineWaiter } from '../../core/line-waiter.js';
import type { AcquireReply } from '../../core/replies.js';
import type { LockRequest } from '../../core/request.js';
import type { TimeLimit } from '../../runtime/clock.js';
import type { Line } from '../../waiting/line.js';

/** What such a waiter needs of its lock. */
export interface ContestedLock {
  acquire(ownerId: string, leaseMs: number, limit?: TimeLimit): Promise<AcquireReply>;
  line(): Line;
}

export class ReentrantWaiter extends LineWaiter {
  readonly ownerId: string;
  readonly #lock: ContestedLock;

  constructor(lock: ContestedLock, ownerId: string, request: LockRequest) {
    super(request, () => lock.line());
    this.#lock = lock;
    this.ownerId = ownerId;
  }

  try(limit?: TimeLimit): Promise<AcquireReply> {
    return this.#lock.acquire(this.ownerId, this.request.leaseMs, limit);
  }
}
