// The calls that end with one signal, and its one listener: Node.js warns of more than ten.

import type { WaitLimit } from './wait-limit.js';

const abortables = new WeakMap<AbortSignal, Abortables>();

/** Those of a signal. */
export function abortablesOf(signal: AbortSignal): Abortables {
  const known = abortables.get(signal) ?? new Abortables(signal);
  abortables.set(signal, known);
  return known;
}

export class Abortables {
  readonly #signal: AbortSignal;
  readonly #waitLimits = new Set<WaitLimit>();

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(waitLimit: WaitLimit): void {
    if (this.#waitLimits.size === 0) this.#signal.addEventListener('abort', this.#abort);
    this.#waitLimits.add(waitLimit);
  }

  delete(waitLimit: WaitLimit): void {
    this.#waitLimits.delete(waitLimit);
    if (this.#waitLimits.size === 0) this.#signal.removeEventListener('abort', this.#abort);
  }

  readonly #abort = (): void => {
    for (const waitLimit of [...this.#waitLimits]) waitLimit.end('aborted');
  };
}
