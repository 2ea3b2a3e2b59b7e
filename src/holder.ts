// Who holds a lock within this process: a scope, a `withLock` body, an anonymous call. Re-entering makes holders a
// tree over one ownership; the children of one holder take turns, so that parallel branches never overlap.

import type { Hold } from './hold.js';
import type { Ownership } from './ownership.js';
import { Turns } from './waiting/turns.js';

export class Holder {
  readonly ownership: Ownership;
  /** The holder that this one re-entered; undefined for the outermost. */
  readonly parent: Holder | undefined;
  /** The turns of its children. */
  readonly turns: Turns = new Turns();
  readonly #holds = new Set<Hold>();
  readonly #onEnd: () => void;

  constructor(ownership: Ownership, parent: Holder | undefined, onEnd: () => void) {
    this.ownership = ownership;
    this.parent = parent;
    this.#onEnd = onEnd;
  }

  get holds(): Iterable<Hold> {
    return this.#holds;
  }

  /** Whether all its holds were given up. (One that was lost has not ended: whoever re-enters it must learn that.) */
  get hasEnded(): boolean {
    return this.#holds.size === 0 || this.ownership.isReleased;
  }

  add(hold: Hold): void {
    this.#holds.add(hold);
  }

  /** A hold was given up; with the last one the next sibling has its turn. */
  remove(hold: Hold): void {
    if (!this.#holds.delete(hold) || this.#holds.size > 0) return;
    this.#onEnd();
    this.parent?.turns.pass();
  }
}
