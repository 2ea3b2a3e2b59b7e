// The answers to one acquisition that granted the lock with a lease that was over by then. A blocked event loop makes one answer late; a
// lease that is shorter than the way to the server makes all of them late, and each try takes the lock from others for nothing.

import type { WaitLimit } from '../runtime/wait-limit.js';
import { leftMs, type Deadline } from './deadline.js';
import type { NamedLock } from './granted-lock.js';
import type { LockRequest } from './request.js';
import { FIRST_PAUSE_MS } from './retry.js';
import type { Session } from './session.js';

/** After so many in a row no other outcome is expected. */
const MOST_IN_A_ROW = 3;

export class LateAnswers {
  readonly #session: Session;
  readonly #lock: NamedLock;
  readonly #request: LockRequest;
  readonly #waitLimit: WaitLimit;
  #inARow = 0;
  #isLatest = false;

  constructor(session: Session, lock: NamedLock, request: LockRequest, waitLimit: WaitLimit) {
    this.#session = session;
    this.#lock = lock;
    this.#request = request;
    this.#waitLimit = waitLimit;
  }

  /** Whether the latest answer was one of them. */
  get isLatest(): boolean {
    return this.#isLatest;
  }

  /** Somebody else has the lock. `deadline`: until when a lease would have been relied on, if it had been granted. */
  held(deadline: Deadline): void {
    this.#isLatest = false;
    if (leftMs(deadline) > 0) this.#inARow = 0;
  }

  /** One more of them came: resolves when it is time to try again. @throws UnavailableError if that is not to be done */
  async granted(): Promise<void> {
    const { waitMs, leaseMs } = this.#request;
    this.#isLatest = true;
    this.#inARow++;
    if (waitMs === 0 || this.#inARow >= MOST_IN_A_ROW)
      throw this.#session.tooLate(this.#lock.name, leaseMs);
    await this.#waitLimit.pause(FIRST_PAUSE_MS * 2 ** (this.#inARow - 1));
  }
}
