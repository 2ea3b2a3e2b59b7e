// A caller who between tries stands in the line of this client for the lock: of those in it one at a time tries, when the lock
// may be free.

import type { TimeLimit } from '../runtime/clock.js';
import type { Findings } from '../waiting/findings.js';
import type { Line, Place } from '../waiting/line.js';
import type { AcquireReply, HeldReply } from './replies.js';
import type { LockRequest } from './request.js';
import type { Waiter } from './waiter.js';

const NOW = Promise.resolve();

export abstract class LineWaiter implements Waiter {
  abstract readonly ownerId: string;
  protected readonly request: LockRequest;
  readonly #line: () => Line;
  #place: Place | undefined;

  /** `line` gives the one where those of this client wait who did not get the lock. */
  constructor(request: LockRequest, line: () => Line) {
    this.request = request;
    this.#line = line;
  }

  abstract try(limit?: TimeLimit): Promise<AcquireReply>;

  wait({ holderTtlMs, retryInMs = holderTtlMs }: HeldReply, triedAtMs: number): void {
    if (this.#place) this.#place.stillHeld(retryInMs);
    else if (this.request.waitMs > 0)
      this.#place = this.#line().join(triedAtMs, retryInMs, this.request);
  }

  get findings(): Findings | undefined {
    return this.#place?.findings;
  }

  look(sinceMs: number): void {
    this.#place?.look(sinceMs);
  }

  get mayTry(): boolean {
    return this.#place?.mayTry ?? true;
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
