// A fair lock on one Redis: a lock of one name, and a look at the line for it.

import type { FairLock } from '../../api/fair-lock.js';
import { SingleLock } from '../single-lock.js';
import type { FairLockBackend } from './fair-backend.js';

export class FairSingleLock extends SingleLock<FairLockBackend> implements FairLock {
  async getQueueLength(): Promise<number> {
    return (await this.getWaiters()).length;
  }

  async getWaiters(): Promise<string[]> {
    const { session, backend } = this.parts;
    return await session.ask(backend, () => backend.waiters());
  }
}
