// What scopes know of what is held in them: who may re-enter it and who may undo it, not how it is held.

import type { LockLostError } from '../api/errors.js';

/** A lock that one owner holds, however often it was re-entered. */
export interface Held {
  /** Its `id` is the same for the same lock of the same client. */
  readonly lock: { readonly id: string };
  readonly ownerId: string;
  /** Whether its release was sent: nobody may re-enter it any more. */
  readonly isReleased: boolean;
}

/** One of the holds by which a scope, or an anonymous caller, holds a lock. */
export interface HoldInScope {
  readonly lockName: string;
  readonly ownerId: string;
  /** Whether `unlock()` may undo it. */
  readonly isUnlockable: boolean;
  /** Whether it was lost while its owner goes on: nobody is inside it any more, but the `unlock()` that it is owed must find it. */
  readonly isRetired: boolean;
  release(): Promise<void>;
  /** Takes it from whoever has it. */
  revoke(error: LockLostError): Promise<void>;
  /** Nobody will undo it any more: it ends with its lease at the latest. */
  stopRenewing(): void;
}
