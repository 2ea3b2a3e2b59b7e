// How long one call may go on: its wait, its caller's signal, its client's close. Ends whatever it is awaiting.

import { setTimer, type TimeLimit } from '../clock.js';

/** Why a call may not go on. */
export type Ending = 'timeout' | 'aborted' | 'closed';

/** Thrown out of an await when the patience is over. */
export class PatienceOver extends Error {
  readonly ending: Ending;
  /** What went wrong while there was patience. */
  readonly trouble: Error | undefined;

  constructor(ending: Ending, trouble?: Error) {
    super(ending);
    this.ending = ending;
    this.trouble = trouble;
  }
}

export interface PatienceOptions {
  /** Milliseconds; Infinity: no limit. */
  limitMs: number;
  signal?: AbortSignal | undefined;
  /** Whether it is for one attempt, or a look, which does not wait for a server that is known to be down. */
  isSingleAttempt?: boolean;
  /** Where a closing client finds the calls that it has to end. */
  registry?: Set<Patience> | undefined;
}

export class Patience implements TimeLimit {
  /** What went wrong so far, for whoever has to explain the end. */
  trouble: Error | undefined;
  /** Whether a command was sent that may have been executed though no answer came. */
  mayHaveRun = false;
  readonly isSingleAttempt: boolean;
  readonly #registry: Set<Patience> | undefined;
  readonly #endsAtMs: number;
  #timer: NodeJS.Timeout | undefined;
  readonly #abortables: Abortables | undefined;
  #ending: Ending | undefined;
  /** Rejects the promise that is awaited now. */
  #stop: ((over: PatienceOver) => void) | undefined;
  /** Wakes the sleep that is going on now. */
  #wake: (() => void) | undefined;
  #shallLookAgain = false;

  constructor({ limitMs, signal, registry, isSingleAttempt = false }: PatienceOptions) {
    this.isSingleAttempt = isSingleAttempt;
    this.#registry = registry;
    this.#endsAtMs = performance.now() + limitMs;
    if (signal) this.#abortables = abortablesOf(signal);
    this.#abortables?.add(this);
    registry?.add(this);
  }

  /** How long it may go on, in milliseconds; 0 when it is over. */
  get leftMs(): number {
    return this.#ending ? 0 : this.#endsAtMs - performance.now();
  }

  /** The promise's outcome, or PatienceOver if that comes first. A late outcome is dropped: whoever must undo it does. */
  within<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      promise.then(resolve, reject);
      this.#stopWith(reject);
    });
  }

  /** Like `within`, for idle waits: `lookAgain` ends it too. True if the promise resolved, false if it did not. */
  sleep(promise: Promise<void>): Promise<boolean> {
    if (this.#shallLookAgain) {
      this.#shallLookAgain = false;
      return Promise.resolve(false);
    }
    return new Promise<boolean>((resolve, reject) => {
      const lookAgain = (): void => {
        this.#wake = undefined;
        resolve(false);
      };
      this.#wake = lookAgain;
      void promise.then(() => {
        if (this.#wake === lookAgain) this.#wake = undefined;
        resolve(true);
      });
      this.#stopWith(reject);
    });
  }

  /** What was found before may hold no longer: ends the sleep that goes on, or the next one. */
  lookAgain(): void {
    if (this.#wake) this.#wake();
    else this.#shallLookAgain = true;
  }

  async pause(delayMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    try {
      await this.within(new Promise<void>((resolve) => (timer = setTimer(resolve, delayMs))));
    } finally {
      clearTimeout(timer);
    }
  }

  /** What is awaited now is stopped by this. (The timer is set when something is awaited: by then a command is on its way.) */
  #stopWith(stop: (over: PatienceOver) => void): void {
    if (this.#ending) {
      stop(new PatienceOver(this.#ending, this.trouble));
      return;
    }
    this.#stop = stop;
    if (this.#endsAtMs !== Infinity)
      this.#timer ??= setTimer(checkTime, this.#endsAtMs - performance.now(), this);
  }

  assertNotOver(): void {
    if (this.#ending) throw new PatienceOver(this.#ending, this.trouble);
  }

  end(ending: Ending): void {
    if (this.#ending) return;
    this.#ending = ending;
    this.#stop?.(new PatienceOver(ending, this.trouble));
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#abortables?.delete(this);
    this.#registry?.delete(this);
  }

  /** Looks at the clock, since a timer may be early, or too short for a long wait. */
  checkTime(): void {
    const leftMs = this.#endsAtMs - performance.now();
    if (leftMs > 1) this.#timer = setTimer(checkTime, leftMs, this);
    // After a blocked event loop the answer may be here, unread: one turn of the loop reads it first.
    else this.#timer = setTimer(timeOut, 1, this);
  }
}

/** All who end with one signal, and its one listener: Node.js warns of more than ten. */
class Abortables {
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

const abortables = new WeakMap<AbortSignal, Abortables>();

function abortablesOf(signal: AbortSignal): Abortables {
  const known = abortables.get(signal) ?? new Abortables(signal);
  abortables.set(signal, known);
  return known;
}

// One function for all, with the patience as its argument: no closures are made for a call that is answered at once.
function checkTime(patience: Patience): void {
  patience.checkTime();
}

function timeOut(patience: Patience): void {
  patience.end('timeout');
}
