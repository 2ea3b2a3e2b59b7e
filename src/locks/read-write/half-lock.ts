// One half of a read-write lock: a lock that says of itself what is true of those who read, or of the one who writes.

import type { LockBackend } from '../../core/backend.js';
import type { HeldHere } from '../base-lock.js';
import { SingleLock } from '../single-lock.js';

/** A read-write lock on its server, as one of its halves sees it. */
export interface HalfBackend extends LockBackend {
  readonly isShared: boolean;
  /** Frees this half whoever holds it, and leaves word for its holders, for at most `wordMs`. Returns the owners that were forced out. */
  forceUnlockAll(wordMs: number): Promise<readonly string[]>;
}

export class HalfLock extends SingleLock<HalfBackend> {
  override get held(): HeldHere | undefined {
    const { session, backend } = this.parts;
    for (const grant of session.grants) {
      const isHeld = grant.lock.id === backend.id && grant.countOf(backend.isShared) > 0;
      const remainingMs = isHeld ? grant.remaining() : 0;
      if (remainingMs > 0) return { ownerId: grant.ownerId, remainingMs };
    }
    return undefined;
  }

  /** The server knows whether the caller's owner holds the lock; how often, and whether to read or to write, only this client knows. */
  override async getHoldCount(): Promise<number> {
    if ((await super.getHoldCount()) === 0) return 0;
    const { session, backend } = this.parts;
    const ownerId = this.currentOwnerId;
    for (const grant of session.grants)
      if (grant.lock.id === backend.id && grant.ownerId === ownerId)
        return grant.countOf(backend.isShared);
    return 0;
  }

  override async forceUnlock(): Promise<boolean> {
    const { session, backend } = this.parts;
    const owners = await session.askOnce(backend, 'not known to be forced', () =>
      backend.forceUnlockAll(2 * session.lockWatchdogTimeoutMs),
    );
    for (const grant of session.grants)
      if (grant.lock.id === backend.id && owners.includes(grant.ownerId)) grant.lose('forced');
    return owners.length > 0;
  }
}
