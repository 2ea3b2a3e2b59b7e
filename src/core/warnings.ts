// Tells of what works but is probably a mistake: by an event, and by a process warning once for each mistake and lock name.

import type { Events } from '../api/events.js';

export type Mistake = 'nested call' | 'forgotten unlock' | 'overlapping calls' | 'short lease';

/** Of how many pairs of mistake and lock name the process is warned. */
const MAX_WARNED = 1_000;

export class Warnings {
  readonly #events: Events;
  readonly #told = new Set<string>();

  constructor(events: Events) {
    this.#events = events;
  }

  /** Emits the event each time; the process is warned only the first time for this mistake and lock name. */
  warn(mistake: Mistake, lockName: string, message: string, ownerId?: string): void {
    this.#events.emit('warning', () => ({ message, lockName, ownerId }));
    if (this.#isNews(mistake, lockName)) process.emitWarning(message, 'HoldfastWarning');
  }

  /** Emits the event, too, only the first time for this mistake and lock name, since a loop would repeat it each round. */
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
