// What works but is probably not meant: told by an event, and to the process once of each kind and name.

import type { Events } from '../api/events.js';

export type Mistake = 'nested call' | 'forgotten unlock' | 'overlapping calls' | 'short lease';

/** Of how many kinds and names the process is warned. */
const MAX_WARNED = 1_000;

export class Warnings {
  readonly #events: Events;
  readonly #told = new Set<string>();

  constructor(events: Events) {
    this.#events = events;
  }

  /** An event each time. */
  warn(mistake: Mistake, lockName: string, message: string, ownerId?: string): void {
    this.#events.emit('warning', () => ({ message, lockName, ownerId }));
    if (this.#isNews(mistake, lockName)) process.emitWarning(message, 'HoldfastWarning');
  }

  /** The event once, too: a mistake that is made again in each round of a loop. */
  warnOnce(mistake: Mistake, lockName: string, message: string): void {
    if (!this.#isNews(mistake, lockName)) return;
    this.#events.emit('warning', () => ({ message, lockName }));
    process.emitWarning(message, 'HoldfastWarning');
  }

  #isNews(mistake: Mistake, lockName: string): boolean {
    const what = `${mistake} ${lockName}`;
    if (this.#told.has(what) || this.#told.size >= MAX_WARNED) return false;
    this.#told.add(what);
    return true;
  }
}
