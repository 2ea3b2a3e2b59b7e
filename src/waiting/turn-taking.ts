// Lets the clients that want one lock take turns: who has released it stands back until the others have had it.

/**
 * How long it stands back for each release by others that does not come, in milliseconds: longer than a grant is passed on within one
 * client, or it would try in the middle of that.
 */
export const TURN_MS = 12;

/** For how many turns of others it stands back at most. */
const MOST_TURNS = 64;

/** Every so many releases all who listen are reckoned with, however few have come before: they may want the lock by now. */
const ALL_EVERY = 16;

/** How soon our own message comes back to us at the latest, or never. */
const OWN_MESSAGE_MS = 20;

export class TurnTaking {
  /** How many of those who listen have come of late. */
  #usual = MOST_TURNS;
  #releases = 0;
  /** How many others are to have their turn before we try. */
  #awaited = 0;
  /** How many have had theirs. */
  #had = 0;
  /** Whether one of those in line has had it since it was released last. */
  #hadIt = false;
  #ownMessages = 0;
  #ownUntilMs = 0;

  /** We are about to release it, and listen ourselves. */
  expectOwnMessage(): void {
    this.#ownMessages++;
    this.#ownUntilMs = performance.now() + OWN_MESSAGE_MS;
  }

  /** Whether a message that has come is our own. */
  takeOwnMessage(): boolean {
    if (performance.now() > this.#ownUntilMs) this.#ownMessages = 0;
    if (this.#ownMessages === 0) return false;
    this.#ownMessages--;
    return true;
  }

  /**
   * We have released it, and so many others heard. Returns for how many turns of theirs to stand back; undefined: those in line did not
   * have it, but another caller of ours who stands in no line, such as a MultiLock that gave it back.
   */
  released(others: number): number | undefined {
    // Fewer than none: our own subscription was not counted, since a node of a cluster counts its own subscribers only.
    const listeners = Math.max(others, 0);
    if (!this.#hadIt) return undefined;
    this.#hadIt = false;
    this.#had = 0;
    const isFull = ++this.#releases % ALL_EVERY === 0;
    if (!isFull && listeners > 0) this.#usual = Math.min(this.#usual, listeners);
    this.#awaited = Math.min(listeners, isFull ? MOST_TURNS : this.#usual);
    return this.#awaited;
  }

  /** Somebody else has released it. Returns whether it is our turn. */
  othersReleased(): boolean {
    this.#had++;
    if (this.#awaited > 0) this.#awaited--;
    return this.#awaited === 0;
  }

  /** We have it again; maybe before all had their turn who were awaited: a busy machine may just be slow, so they are doubted by and by. */
  granted(): void {
    this.#hadIt = true;
    if (this.#awaited > 0) this.#usual = Math.max(this.#had, this.#usual >> 1);
    this.#awaited = 0;
  }

  /**
   * Somebody else has it when we try. If all who were awaited have had their turn, there is one more than we thought. If not, and for a
   * while nobody released it, then some of them do not want it, and who had it before has it again: one more turn is enough.
   */
  stillHeld(): void {
    if (this.#awaited > 0) {
      this.#usual = Math.max(this.#had, this.#usual >> 1);
      this.#awaited = 1;
    } else if (this.#usual < MOST_TURNS) this.#usual++;
  }

  /** Nobody is in line any more: who comes later owes nobody a turn. */
  emptied(): void {
    this.#awaited = 0;
  }
}
