// A fair lock on one Redis: a lock of one name, and a look at the line for it.

import type { FairLock } from '../../api/fair-lock.js';
import type { Session } from '../../core/session.js';
import { SingleLock } from '../single-lock.js';
import type { FairLockBackend } from './fair-backend.js';

export class FairSingleLock extends SingleLock implements FairLock {
  readonly #session: Session;
  readonly #backend: FairLockBackend;

  constructor(session: Session, backend: FairLockBackend) {
    super(session, backend);
    this.#session = session;
    this.#backend = backend;
  }

  async getQueueLength(): Promise<number> {
    return (await this.getWaiters()).length;
  }

  async getWaiters(): Promise<string[]> {
    return await this.#session.ask(this.#backend, () => this.#backend.waiters());
  }
}
