// The calls that end with one signal, and its one listener: Node.js warns of more than ten.

/** A call that an abort ends. */
interface Abortable {
  end(ending: 'aborted'): void;
}

const abortables = new WeakMap<AbortSignal, Abortables>();

/** Those of a signal. */
export function abortablesOf(signal: AbortSignal): Abortables {
  const known = abortables.get(signal) ?? new Abortables(signal);
  abortables.set(signal, known);
  return known;
}

export class Abortables {
  readonly #signal: AbortSignal;
  readonly #calls = new Set<Abortable>();

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(call: Abortable): void {
    if (this.#calls.size === 0) this.#signal.addEventListener('abort', this.#abort);
    this.#calls.add(call);
  }

  delete(call: Abortable): void {
    this.#calls.delete(call);
    if (this.#calls.size === 0) this.#signal.removeEventListener('abort', this.#abort);
  }

  readonly #abort = (): void => {
    for (const call of [...this.#calls]) call.end('aborted');
  };
}
