// The calls that end with one signal, and its one listener: Node.js warns of more than ten.

import type { Patience } from './patience.js';

const abortables = new WeakMap<AbortSignal, Abortables>();

/** Those of a signal. */
export function abortablesOf(signal: AbortSignal): Abortables {
  const known = abortables.get(signal) ?? new Abortables(signal);
  abortables.set(signal, known);
  return known;
}

export class Abortables {
  readonly #signal: AbortSignal;
  readonly #patiences = new Set<Patience>();

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(patience: Patience): void {
    if (this.#patiences.size === 0) this.#signal.addEventListener('abort', this.#abort);
    this.#patiences.add(patience);
  }

  delete(patience: Patience): void {
    this.#patiences.delete(patience);
    if (this.#patiences.size === 0) this.#signal.removeEventListener('abort', this.#abort);
  }

  readonly #abort = (): void => {
    for (const patience of [...this.#patiences]) patience.end('aborted');
  };
}
