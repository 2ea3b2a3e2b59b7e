// What happens once when a call begins to wait: it is told, a scope that gets the lock meanwhile will wake it, and a
// call that seems to wait for itself will be warned of.

import type { LockBackend } from './backend.js';
import type { Session } from './session.js';
import type { WaitingEvent } from '../api/events.js';
import { nestedCallMessage } from './refusals.js';
import { outwards, type Scope } from '../scopes/scope.js';
import type { WaitLimit } from '../runtime/wait-limit.js';

/** After how long a wait for a lock that this client itself holds outside any scope is warned of. */
const NESTED_CALL_WARNING_MS = 1_000;

/** Returns how to end it. */
export function noticeWaiting(
  session: Session,
  { id, name }: LockBackend,
  position: Scope | undefined,
  waitLimit: WaitLimit,
  event: WaitingEvent,
): () => void {
  session.events.emit('waiting', () => event);
  const deafen = [...outwards(position)].map((scope) => scope.onEnter(id, waitLimit));
  const timer = setTimeout(() => {
    const holder = session.anonymous.held(id)?.ownerId;
    if (holder === undefined) return;
    session.warnings.warn('nested call', name, nestedCallMessage(name, holder), holder);
  }, NESTED_CALL_WARNING_MS);
  return () => {
    clearTimeout(timer);
    for (const stop of deafen) stop();
  };
}
