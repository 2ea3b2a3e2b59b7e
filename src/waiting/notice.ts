// What happens once when a call begins to wait: it is told, a scope that gets the lock meanwhile will wake it, and a
// call that seems to wait for itself will be warned of.

import type { LockBackend } from '../backend.js';
import type { Client } from '../client.js';
import type { WaitingEvent } from '../events.js';
import { nestedCallMessage } from '../refusals.js';
import { outwards, type Scope } from '../scope.js';
import type { Patience } from './patience.js';

/** After how long a wait for a lock that this client itself holds outside any scope is warned of. */
const NESTED_CALL_WARNING_MS = 1_000;

/** Returns how to end it. */
export function noticeWaiting(
  client: Client,
  { id, name }: LockBackend,
  position: Scope | undefined,
  patience: Patience,
  event: WaitingEvent,
): () => void {
  client.events.tell('waiting', () => event);
  const deafen = [...outwards(position)].map((scope) => scope.onEnter(id, patience));
  const timer = setTimeout(() => {
    const holder = client.anonymous.held(id)?.ownerId;
    if (holder === undefined) return;
    client.warnings.tell('nested call', name, nestedCallMessage(name, holder), holder);
  }, NESTED_CALL_WARNING_MS);
  return () => {
    clearTimeout(timer);
    for (const stop of deafen) stop();
  };
}
