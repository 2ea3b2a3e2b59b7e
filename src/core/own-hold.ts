// A hold as the library itself sees it: how it came to be, and a release that no caller waits for.

import type { Hold } from '../api/hold.js';
import type { HoldInScope } from '../scopes/held.js';

/** How a hold came to be, and so what may undo it. */
export type HoldOrigin = 'lock' | 'acquire' | 'withLock';

/** A hold as the lock that gave it out sees it. */
export interface OwnHold extends Hold {
  /** What `unlock()` may undo of it: itself, or those of a MultiLock's members, in their order. */
  readonly members: readonly HoldInScope[];
  /** Releases the lock; that Redis could not be reached is an `error` event, no rejection: what the lock guarded is done. */
  releaseQuietly(): Promise<void>;
}
