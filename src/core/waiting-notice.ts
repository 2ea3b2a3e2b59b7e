// What happens once when a call begins to wait: `waiting` is emitted; a scope around the call that gets the lock meanwhile will wake
// it; and a call that seems to wait for itself will be warned of.

import type { AcquirableLock } from './backend.js';
import type { Session } from './session.js';
import type { WaitingEvent } from '../api/events.js';
import { outwards, type Scope } from '../scopes/scope.js';
import type { WaitLimit } from '../runtime/wait-limit.js';

/** Returns what to call when the wait has ended. */
export function noticeWaiting(
  session: Session,
  lock: AcquirableLock,
  position: Scope | undefined,
  waitLimit: WaitLimit,
  event: WaitingEvent,
): () => void {
  session.events.emit('waiting', () => event);
  const deafen = [...outwards(position)].map((scope) => scope.onEnter(lock.id, waitLimit));
  // A nested call of a lock that cannot be re-entered would wait inside a scope, too: what the warning advises would be no help.
  const mayBeNested = lock.isReentrant ?? true;
  const endWaiting = mayBeNested ? session.nestedCalls.begin(lock) : undefined;
  return () => {
    endWaiting?.();
    for (const stop of deafen) stop();
  };
}
