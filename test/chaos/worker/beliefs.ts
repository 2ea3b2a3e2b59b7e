// What those who hold believe: asked often, and written down with the time before the question.
import type { Hold } from '../../../src/index.js';
import type { Journal } from './journal.js';
import type { WorkTime } from './time.js';

const LOOK_EVERY_MS = 4;

/** A hold of a lock, or of permits. */
export type Held = Pick<Hold, 'ownerId' | 'remaining' | 'signal'> & Partial<Pick<Hold, 'token'>>;

export class Beliefs {
  readonly #journal: Journal;
  readonly #held = new Map<string, Held>();
  readonly #doubted = new Set<string>();
  readonly #time: WorkTime;
  #isLooking = false;

  constructor(journal: Journal, time: WorkTime) {
    this.#journal = journal;
    this.#time = time;
  }

  /** It was just acquired; `isLookedAt`: it is also asked while its section does nothing. */
  begin(id: string, hold: Held, isLookedAt: boolean): void {
    const leftMs = hold.remaining();
    // After the look: whoever is stopped in between does not believe before it goes on.
    const token = hold.token?.toString();
    this.#journal.note({ what: 'entered', id, owner: hold.ownerId, leftMs, token });
    if (leftMs === 0) this.look(id, hold);
    if (isLookedAt) this.#held.set(id, hold);
    if (!this.#isLooking) void this.#lookAround();
  }

  /**
   * The time of a belief is taken before the look: one who is stopped in between must not seem to believe for longer than it does. That
   * of a doubt after it: the same must not seem to doubt too early.
   */
  look(id: string, hold: Held): void {
    const at = this.#time.nowMs();
    const leftMs = hold.remaining();
    const isAborted = hold.signal.aborted;
    if (leftMs > 0 && !isAborted) this.#journal.note({ what: 'believes', id, leftMs }, at);
    else if (!this.#doubted.has(id)) {
      this.#doubted.add(id);
      const contradicts = isAborted ? hold.remaining() > 0 : leftMs === 0;
      this.#journal.note({ what: 'doubts', id, contradicts });
    }
  }

  /** It is about to be released. */
  end(id: string, hold: Held): void {
    this.look(id, hold);
    this.#held.delete(id);
    this.#doubted.delete(id);
  }

  async #lookAround(): Promise<void> {
    this.#isLooking = true;
    while (this.#held.size > 0) {
      await this.#time.sleep(LOOK_EVERY_MS);
      for (const [id, hold] of this.#held) this.look(id, hold);
    }
    this.#isLooking = false;
  }
}
