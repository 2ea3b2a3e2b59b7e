// Lets the clients that want one lock take turns: a client that has released it stands back until the others have had it.

import { PROCESS_CLOCK, type Clock } from '../runtime/clock.js';

/**
 * How long a client waits for the next release by another one before it tries anyway, in milliseconds: longer than a grant is passed on
 * within one client, or it would try in the middle of that.
 */
export const TURN_MS = 12;

/** For how many turns of other clients one stands back at most. */
const MOST_TURNS = 64;

/** One release in so many lets all listeners have a turn, however few had theirs before: more of them may want the lock by now. */
const ALL_EVERY = 16;

/** How long after a release our own message may come back to us, in milliseconds; later it is not expected any more. */
const OWN_MESSAGE_MS = 20;

export class TurnTaking {
  readonly #clock: Clock;
  /** How many of the listeners have had a turn of late. */
  #usual = MOST_TURNS;
  #releases = 0;
  /** How many others are to have their turn before we try. */
  #awaited = 0;
  /** How many releases by others came since our own. */
  #had = 0;
  /** Whether one of those in line has had the lock since this client released it last. */
  #hadIt = false;
  #ownMessages = 0;
  #ownUntilMs = 0;

  constructor(clock: Clock = PROCESS_CLOCK) {
    this.#clock = clock;
  }

  /** We are about to release the lock, and listen to its channel ourselves. */
  expectOwnMessage(): void {
    this.#ownMessages++;
    this.#ownUntilMs = this.#clock.nowMs() + OWN_MESSAGE_MS;
  }

  /** Whether a message that has come is our own. */
  takeOwnMessage(): boolean {
    if (this.#clock.nowMs() > this.#ownUntilMs) this.#ownMessages = 0;
    if (this.#ownMessages === 0) return false;
    this.#ownMessages--;
    return true;
  }

  /**
   * We have released the lock, and `others` other listeners were told. Returns for how many turns of theirs to stand back; undefined: none
   * of those in line had the lock, but another caller of ours who stands in no line, such as a MultiLock that gave it back.
   */
  released(others: number): number | undefined {
    // `others` is negative if our own subscription was not counted, since a node of a cluster counts its own subscribers only.
    const listeners = Math.max(others, 0);
    if (!this.#hadIt) return undefined;
    this.#hadIt = false;
    this.#had = 0;
    const isFull = ++this.#releases % ALL_EVERY === 0;
    if (!isFull && listeners > 0) this.#usual = Math.min(this.#usual, listeners);
    this.#awaited = Math.min(listeners, isFull ? MOST_TURNS : this.#usual);
    return this.#awaited;
  }

  /** Another client has released the lock. Returns whether it is our turn. */
  othersReleased(): boolean {
    this.#had++;
    if (this.#awaited > 0) this.#awaited--;
    return this.#awaited === 0;
  }

  /**
   * We have the lock again. If not all turns came that were awaited, fewer are expected from now on; but not less than half at once, since
   * a machine may just be slow.
   */
  granted(): void {
    this.#hadIt = true;
    if (this.#awaited > 0) this.#usual = Math.max(this.#had, this.#usual >> 1);
    this.#awaited = 0;
  }

  /**
   * Our try found that somebody else has the lock. If all turns came that were awaited, there is one client more than we thought. If not,
   * and nobody released the lock for a while, then some of them do not want it, and the former holder has it again: one more turn is
   * enough.
   */
  stillHeld(): void {
    if (this.#awaited > 0) {
      this.#usual = Math.max(this.#had, this.#usual >> 1);
      this.#awaited = 1;
    } else if (this.#usual < MOST_TURNS) this.#usual++;
  }

  /** Nobody is in line any more: whoever joins later owes nobody a turn. */
  emptied(): void {
    this.#awaited = 0;
  }
}
