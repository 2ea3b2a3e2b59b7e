// Who could rely on a lock, and when: from the moment a hold began until its last moment of `remaining() > 0`.
import type { Hold } from '../../src/index.js';

interface Watched {
  readonly who: string;
  readonly hold: Hold;
}

export class RedOracle {
  /** Each pair that could rely on it at the same time. */
  readonly overlaps: string[] = [];
  /** How many holds there were. */
  begun = 0;
  readonly #watched = new Set<Watched>();

  /** A hold begins: whoever else was granted the lock must not be able to rely on it any more. */
  begin(who: string, hold: Hold): () => void {
    this.begun++;
    const watched = { who, hold };
    for (const other of this.#watched) {
      if (isValid(other.hold) && isValid(hold)) this.overlaps.push(`${who} and ${other.who}`);
    }
    this.#watched.add(watched);
    return () => this.#watched.delete(watched);
  }

  /** Looks again: one that was not valid must not have become so. */
  look(): void {
    const valid = [...this.#watched].filter(({ hold }) => isValid(hold)).map(({ who }) => who);
    if (valid.length > 1) this.overlaps.push(valid.join(' and '));
  }
}

function isValid(hold: Hold): boolean {
  return hold.remaining() > 0 && !hold.signal.aborted;
}

// What the contenders of a scenario do with a simulated Redlock, and how the scenario is played to its end while an oracle looks on.
