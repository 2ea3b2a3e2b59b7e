// What happens once when a call begins to wait: `waiting` is emitted; a scope around the call that gets the lock meanwhile will wake
// it; and a call that seems to wait for itself will be warned of.

import type { AcquirableLock } from './backend.js';
import type { CallersRequest } from './request.js';
import type { Session } from './session.js';
import type { WaitingEvent } from '../api/events.js';
import { outwards } from '../scopes/scope.js';
import type { WaitLimit } from '../runtime/wait-limit.js';

/** Returns what to call when the wait has ended. */
export function noticeWaiting(
  session: Session,
  lock: AcquirableLock,
  { position, selfWait }: CallersRequest,
  waitLimit: WaitLimit,
  event: WaitingEvent,
): () => void {
  session.events.emit('waiting', () => event);
  const deafen = [...outwards(position)].map((scope) => scope.onEnter(lock.id, waitLimit));
  const endWaiting = session.nestedCalls.begin(lock, position, selfWait);
  return () => {
    endWaiting();
    for (const stop of deafen) stop();
  };
}
