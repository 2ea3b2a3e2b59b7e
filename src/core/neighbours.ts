// The other clients of this process, also those of another copy of this package. Each client re-enters only what it holds itself, so a call
// that is nested in a hold of another client waits for itself.

import type { SelfWait } from './protocol.js';
import type { Session } from './session.js';
import { neighbourHolds } from './messages.js';
import { PROCESS_CLOCK } from '../runtime/clock.js';
import { isMarkedAs } from '../scopes/anonymous.js';
import { currentScope, isInsideOwner } from '../scopes/scope.js';

/** A hold outside all scopes, in which a waiting call may be nested. */
interface AnonymousHold {
  readonly ownerId: string;
  readonly isShared: boolean;
  readonly isUnlockable: boolean;
  readonly heldForMs: number;
}

/** What a client tells the others of this process. Clients of other versions use it, too: a change needs another symbol. */
interface Neighbour {
  /** Whether the running code is inside a hold of this owner. */
  isAround(ownerId: string): boolean;
  /** undefined: this owner holds nothing. `anonymous`: its hold, if that is outside all scopes. */
  held(ownerId: string): { readonly anonymous: AnonymousHold | undefined } | undefined;
}

const CLIENTS = Symbol.for('holdfast.clients.1');

/** The open clients of this process, by their ids. */
function clients(): Map<string, Neighbour> {
  const shared: { [CLIENTS]?: Map<string, Neighbour> | undefined } = globalThis as object;
  return (shared[CLIENTS] ??= new Map<string, Neighbour>());
}

/** The others see this client from now on, until the returned function is called. `sessions`: those that make owners of this id. */
export function joinProcess(clientId: string, sessions: () => readonly Session[]): () => void {
  clients().set(clientId, {
    isAround: (ownerId) => isMarkedAs(ownerId) || isInsideOwner(currentScope(), ownerId),
    held(ownerId) {
      for (const { grants, anonymous, clock } of sessions())
        for (const grant of grants) {
          if (grant.ownerId !== ownerId || grant.remaining() <= 0) continue;
          const hold = anonymous.held(grant.lock.id);
          // (Clients on the time of a server in memory stand for several processes, whose calls are not nested.)
          const mayBeAround = hold?.ownerId === ownerId && clock === PROCESS_CLOCK;
          return { anonymous: mayBeAround ? hold : undefined };
        }
      return undefined;
    },
  });
  return () => clients().delete(clientId);
}

/** The client of this owner, if it is another one of this process. */
export function neighbourOf({ clientId }: Session, ownerId: string): Neighbour | undefined {
  const theirs = ownerId.slice(0, ownerId.lastIndexOf(':'));
  return theirs === clientId ? undefined : clients().get(theirs);
}

/** Whether the running code, which begins to wait for this owner, is inside a hold of it by another client; undefined: it is not. */
export function waitForNeighbour(session: Session, ownerId: string): SelfWait | undefined {
  const neighbour = neighbourOf(session, ownerId);
  if (!neighbour?.isAround(ownerId)) return undefined;
  return () => (neighbour.held(ownerId) ? { ownerId, why: neighbourHolds(ownerId) } : undefined);
}
