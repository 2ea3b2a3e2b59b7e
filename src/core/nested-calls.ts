// Warns of calls that seem to wait for themselves: those that have waited for a second for one anonymous hold of their own client, a
// hold outside any scope. Nothing is timed for a caller that waits for another client.

import type { NamedLock } from './granted-lock.js';
import { nestedCallMessage } from './refusals.js';
import type { Warnings } from './warnings.js';
import type { Due, Schedule, Scheduled } from '../runtime/schedule.js';
import type { AnonymousHolds } from '../scopes/anonymous-holds.js';
import type { HoldInScope } from '../scopes/held.js';

/** After how long a wait for one anonymous hold of this client is warned of. */
const NESTED_CALL_WARNING_MS = 1_000;

/** What `NestedCalls` needs of the session. */
interface Surroundings {
  readonly schedule: Schedule;
  readonly anonymous: AnonymousHolds;
  readonly warnings: Warnings;
}

export class NestedCalls {
  readonly #session: Surroundings;
  readonly #waits = new Map<string, LockWaits>();

  constructor(session: Surroundings) {
    this.#session = session;
  }

  /** A call begins to wait for the lock. Returns how to end that. */
  begin(lock: NamedLock): () => void {
    const { id } = lock;
    let waits = this.#waits.get(id);
    if (!waits) this.#waits.set(id, (waits = new LockWaits(this.#session, lock)));
    return waits.begin(() => this.#waits.delete(id));
  }
}

/** The calls that wait for one lock. */
class LockWaits implements Due {
  scheduled: Scheduled | undefined;
  readonly #session: Surroundings;
  readonly #lock: NamedLock;
  /** How many calls wait, warned of or not. */
  #count = 0;
  /** The calls that were not warned of so far, and since when each waits (monotonic), oldest first. */
  readonly #waits = new Set<{ readonly sinceMs: number }>();
  readonly #deafen: () => void;
  /** The anonymous hold that was seen last, and since when it is there (monotonic); -Infinity: since before anybody waited. */
  #hold: HoldInScope | undefined;
  #heldSinceMs = -Infinity;

  constructor(session: Surroundings, lock: NamedLock) {
    this.#session = session;
    this.#lock = lock;
    this.#hold = session.anonymous.held(lock.id);
    this.#deafen = session.anonymous.onHeld(lock.id, this.#held);
  }

  begin(onEmpty: () => void): () => void {
    const wait = { sinceMs: performance.now() };
    this.#waits.add(wait);
    this.#count++;
    if (this.#session.anonymous.held(this.#lock.id)) this.#checkAfter(NESTED_CALL_WARNING_MS);
    return () => {
      this.#waits.delete(wait);
      if (--this.#count > 0) return;
      this.#deafen();
      this.#session.schedule.delete(this);
      onEmpty();
    };
  }

  due(): void {
    const hold = this.#session.anonymous.held(this.#lock.id);
    if (!hold) return; // when the next anonymous hold begins, the check is scheduled again
    if (hold !== this.#hold) {
      this.#held(hold);
      return;
    }
    for (const wait of this.#waits) {
      const waitedMs = performance.now() - Math.max(wait.sinceMs, this.#heldSinceMs);
      if (waitedMs < NESTED_CALL_WARNING_MS) {
        this.#checkAfter(NESTED_CALL_WARNING_MS - waitedMs);
        return; // the others wait for less long
      }
      this.#waits.delete(wait);
      this.#warn(hold);
    }
  }

  /** An anonymous hold of this client begins while calls wait. */
  readonly #held = (hold: HoldInScope): void => {
    this.#hold = hold;
    this.#heldSinceMs = performance.now();
    if (this.#waits.size > 0) this.#checkAfter(NESTED_CALL_WARNING_MS);
  };

  #checkAfter(delayMs: number): void {
    this.#session.schedule.within(this, delayMs);
  }

  #warn({ ownerId, isShared }: HoldInScope): void {
    const { name } = this.#lock;
    const message = nestedCallMessage(name, ownerId, isShared);
    this.#session.warnings.warn('nested call', name, message, ownerId);
  }
}
