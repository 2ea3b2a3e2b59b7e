// A caller who wants a reentrant lock.

import type { Granted, Heir } from '../../core/granted-lock.js';
import { LineWaiter } from '../../core/line-waiter.js';
import type { AcquireReply, HeldReply } from '../../core/replies.js';
import type { LockRequest } from '../../core/request.js';
import type { TimeLimit } from '../../runtime/clock.js';
import type { Line } from '../../waiting/line.js';

/** What such a waiter needs of its lock. */
export interface ContestedLock {
  acquire(ownerId: string, leaseMs: number, limit?: TimeLimit): Promise<AcquireReply>;
  /** The grant by which this client holds the lock; undefined: it does not. */
  readonly heldHere: Granted | undefined;
  /** The line of this client's waiters for the lock, if anybody waits. */
  readonly localLine: Line<Heir> | undefined;
  line(): Line<Heir>;
}

export class ReentrantWaiter extends LineWaiter {
  readonly ownerId: string;
  readonly #lock: ContestedLock;

  constructor(lock: ContestedLock, ownerId: string, request: LockRequest) {
    super(request, () => lock.line());
    this.#lock = lock;
    this.ownerId = ownerId;
  }

  /**
   * A valid grant of this client is as good as the server's answer. Without one, a call with `waitMs` 0 asks the server; others join this
   * client's line, if there is one.
   */
  queue(): HeldReply | undefined {
    if (this.isInLine) return undefined;
    const { heldHere: grant, localLine } = this.#lock;
    const seen = grant && { outcome: 'held' as const, ...grant.seen };
    if (this.request.waitMs === 0 || (!seen && !localLine)) return seen;
    const line = localLine ?? this.#lock.line();
    this.queueIn(line);
    if (seen) line.findings.held(seen, line.clock.nowMs());
    const { holder } = line.findings;
    return { outcome: 'held', holder: this.ownerId, holderTtlMs: -1, ...holder };
  }

  try(limit?: TimeLimit): Promise<AcquireReply> {
    return this.#lock.acquire(this.ownerId, this.request.leaseMs, limit);
  }
}
