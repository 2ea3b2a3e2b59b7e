// The limit of one call: its wait, its caller's signal, its client's close. Whatever the call awaits ends with that.

import { nextTick } from 'node:process';
import { type Clock, PROCESS_CLOCK, type TimeLimit, type Timer } from './clock.js';

/**
 * How late a wait may end, in milliseconds. However short it is, an attempt that was sent has so long for its answer; and if the event loop
 * was blocked until the wait was over, a last query has so long.
 */
export const LATE_MS = 100;

/** How long before the end of a long wait the last query is sent: early enough for a slow server to answer. */
const LAST_LOOK_MS = 800;

/** How often a call that is extended for a query alone checks whether that was answered, in milliseconds. */
const ASK_EVERY_MS = 5;

/** Why a call may not go on. */
export type Ending = 'timeout' | 'aborted' | 'closed';

/** Thrown by an await when the wait is over. */
export class WaitEnded extends Error {
  readonly ending: Ending;
  /** Why the latest attempt failed, if the wait ended before it could be repeated. */
  readonly lastError: Error | undefined;

  constructor(ending: Ending, lastError?: Error) {
    super(ending);
    this.ending = ending;
    this.lastError = lastError;
  }
}

/** A call that can be ended from outside. */
export interface Call {
  end(ending: Ending): void;
  /** Called now and then, for a call that has no timer of its own. */
  look?(): void;
}

export interface WaitLimitOptions {
  /** Its time; omitted: that of the process. */
  clock?: Clock;
  /** Milliseconds; Infinity: no limit. */
  limitMs: number;
  signal?: AbortSignal | undefined;
  /** Whether an attempt that is under way when the time is over still has until `LATE_MS` after it was sent. */
  sparesAttempts?: boolean;
  /** Whether the call is a single attempt or a query, which does not wait for a server that is known to be down. */
  isSingleAttempt?: boolean;
  /** The calls that a closing client has to end. */
  registry?: Set<Call> | undefined;
}

/** Bounds one await at a time: of two at once, only the later one would end with it. */
export class WaitLimit implements TimeLimit, Call {
  readonly clock: Clock;
  readonly isSingleAttempt: boolean;
  readonly #registry: Set<Call> | undefined;
  readonly #stopListening: (() => void) | undefined;
  readonly #sparesAttempts: boolean;
  #endsAtMs: number;
  /** Until when the present attempt may go on after the time is over (monotonic); Infinity: it is yet to be sent; 0: there is none. */
  #sparedUntilMs = 0;
  #isOverdue = false;
  #ending: Ending | undefined;
  #timer: Timer | undefined;
  /** Rejects the present await. */
  #stop: ((over: WaitEnded) => void) | undefined;
  /** Ends the present sleep; or the next sleep must not begin. */
  #wake: (() => void) | 'look again' | undefined;
  #look: (() => boolean) | undefined;
  /** When the last query is due (monotonic); Infinity: it was sent, or there is none. */
  #lookAtMs = Infinity;

  constructor({
    clock = PROCESS_CLOCK,
    limitMs,
    signal,
    registry,
    isSingleAttempt = false,
    sparesAttempts = false,
  }: WaitLimitOptions) {
    this.clock = clock;
    this.isSingleAttempt = isSingleAttempt;
    this.#sparesAttempts = sparesAttempts && limitMs !== Infinity;
    this.#endsAtMs = clock.nowMs() + limitMs;
    this.#registry = registry;
    if (signal) this.#stopListening = endOnAbort(signal, this);
    registry?.add(this);
  }

  /** How long the call may go on, in milliseconds; 0 or less when it is over. */
  get leftMs(): number {
    return this.#ending ? 0 : Math.max(this.#endsAtMs - this.clock.nowMs(), this.#sparedMs);
  }

  /** When the time is over (monotonic). */
  get endsAtMs(): number {
    return this.#endsAtMs;
  }

  /** Whether the time is over, and the call goes on for an attempt or query that was under way. */
  get isOverdue(): boolean {
    return this.#isOverdue;
  }

  assertNotOver(): void {
    if (this.#ending) throw new WaitEnded(this.#ending);
  }

  /** The promise's outcome, or WaitEnded if the wait ends first. A later outcome is dropped: the caller has to undo it if need be. */
  within<T>(promise: Promise<T>): Promise<T> {
    this.#spareUntil(0);
    return this.#bounded(promise);
  }

  /** Like `within`, for an attempt that `send` begins. */
  attempt<T>(send: () => Promise<T>): Promise<T> {
    this.#spareAttempt();
    return this.#bounded(send());
  }

  async pause(delayMs: number): Promise<void> {
    const { clock } = this;
    let timer: Timer | undefined;
    try {
      await this.within(new Promise<void>((resolve) => (timer = clock.setTimer(resolve, delayMs))));
    } finally {
      clock.clearTimer(timer);
    }
  }

  /**
   * Like `within`, for idle waits, which `lookAgain` ends, too. Returns whether the promise resolved.
   *
   * @param isForAttempt - whether another call's attempt is awaited, whose outcome is this call's, too
   */
  sleep(promise: Promise<void>, isForAttempt = false): Promise<boolean> {
    if (isForAttempt) this.#spareAttempt();
    else if (this.#isOverdue) this.end('timeout');
    else this.#spareUntil(0);
    if (this.#wake === 'look again') {
      this.#wake = undefined;
      return Promise.resolve(false);
    }
    return new Promise<boolean>((resolve, reject) => {
      const wake = (): void => {
        this.#wake = undefined;
        resolve(false);
      };
      this.#wake = wake;
      void promise.then(() => {
        if (this.#wake === wake) this.#wake = undefined;
        resolve(true);
      });
      this.#stopWith(reject);
    });
  }

  /** Ends the present sleep, or the next one: earlier findings may be out of date. */
  lookAgain(): void {
    if (typeof this.#wake === 'function') this.#wake();
    else this.#wake = 'look again';
  }

  /**
   * Has `look` called shortly before the time is over: the caller's error must not rest on old information. If the event loop was blocked
   * until later, `look` is called then, and the time is over a moment after that. `look` returns whether its information is there already;
   * the end waits a moment for it.
   */
  lookBeforeEnd(look: () => boolean): void {
    if (this.#endsAtMs === Infinity) return;
    this.#look = look;
    this.#lookAtMs = Math.max(this.#endsAtMs - LAST_LOOK_MS, this.clock.nowMs());
    this.#checkIn(this.#untilNextMs);
  }

  end(ending: Ending): void {
    if (this.#ending) return;
    this.#ending = ending;
    this.#stop?.(new WaitEnded(ending));
  }

  dispose(): void {
    this.clock.clearTimer(this.#timer);
    this.#stopListening?.();
    this.#registry?.delete(this);
  }

  #bounded<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      promise.then(resolve, reject);
      this.#stopWith(reject);
    });
  }

  /** Has `stop` called when the wait is over. (The timer is set at the first await: by then a command is on its way.) */
  #stopWith(stop: (over: WaitEnded) => void): void {
    if (this.#ending) {
      stop(new WaitEnded(this.#ending));
      return;
    }
    this.#stop = stop;
    if (this.#endsAtMs !== Infinity && !this.#timer) this.#checkIn(this.#untilNextMs);
  }

  /** Notes that an attempt begins. Gathered commands are sent at the end of this turn of the event loop, which may be long. */
  #spareAttempt(): void {
    if (!this.#sparesAttempts) return;
    this.#spareUntil(Infinity);
    nextTick(() => {
      if (this.#sparedUntilMs === Infinity) this.#sparedUntilMs = this.clock.nowMs() + LATE_MS;
    });
  }

  /** Sets until when an attempt is spared. Once the call is overdue, that does not change any more. */
  #spareUntil(untilMs: number): void {
    if (this.#sparesAttempts && !this.#isOverdue) this.#sparedUntilMs = untilMs;
  }

  /** How long the present attempt or query may still go on, in milliseconds; 0 or less: no longer. */
  get #sparedMs(): number {
    const untilMs = this.#sparedUntilMs;
    return untilMs === Infinity ? LATE_MS : untilMs - this.clock.nowMs();
  }

  /** Milliseconds until the last query, if one is due, or until the end. */
  get #untilNextMs(): number {
    const leftMs = Math.min(this.#lookAtMs, this.#endsAtMs) - this.clock.nowMs();
    return this.#isOverdue ? Math.max(leftMs, this.#sparedMs) : leftMs;
  }

  #checkIn(delayMs: number, check: () => void = this.#checkTime): void {
    this.clock.clearTimer(this.#timer);
    this.#timer = this.clock.setTimer(check, delayMs);
  }

  /** Checks the clock, since a timer may be early, or too short for a long wait. */
  readonly #checkTime = (): void => {
    if (this.#untilNextMs <= 1) this.#lookNow();
    const leftMs = this.#untilNextMs;
    // After a blocked event loop the call may be about to send its attempt, or about to use an answer that is here.
    if (leftMs < 0 && !this.#isAsleep) this.#spareFor(Math.min(-leftMs, LATE_MS));
    if (leftMs > 1) this.#checkIn(leftMs);
    // After a blocked event loop the answer may be here, unread: one more turn of the loop reads it.
    else this.#checkIn(1, this.#timeOut);
  };

  /** Sends the last query if it is due; and once more if the end comes so late that its answer is old. */
  #lookNow(): void {
    const look = this.#look;
    const isLate = this.#untilNextMs < -LATE_MS;
    const hasLooked = this.#lookAtMs === Infinity;
    if (!look || (hasLooked && !isLate)) return;
    if (hasLooked) this.#look = undefined; // a second time at most
    this.#lookAtMs = Infinity;
    if (isLate) this.#endsAtMs = Math.max(this.#endsAtMs, this.clock.nowMs() + LATE_MS);
    if (!look()) this.#spareFor(LATE_MS);
  }

  #spareFor(ms: number): void {
    this.#spareUntil(Math.max(this.#sparedUntilMs, this.clock.nowMs() + ms));
  }

  /** Ends the call when the time is over, unless an attempt or query under way may still go on. */
  readonly #timeOut = (): void => {
    const isAsleep = this.#isAsleep;
    if ((isAsleep && this.#look?.()) || this.#sparedMs <= 0) {
      this.end('timeout');
      return;
    }
    this.#isOverdue = true;
    if (isAsleep) this.#checkIn(ASK_EVERY_MS, this.#timeOut);
    else this.#checkIn(this.#untilNextMs);
  };

  get #isAsleep(): boolean {
    return typeof this.#wake === 'function';
  }
}

// The calls that end with one signal, and the one listener for all of them: Node.js warns of more than ten listeners.

const callsOf = new WeakMap<AbortSignal, Set<Call>>();

/** Has the signal end a call, until the function that this returns is called. */
function endOnAbort(signal: AbortSignal, call: Call): () => void {
  const calls = callsOf.get(signal) ?? new Set<Call>();
  callsOf.set(signal, calls.add(call));
  signal.addEventListener('abort', endAll); // one listener, however many calls there are
  return () => {
    calls.delete(call);
    if (calls.size === 0) signal.removeEventListener('abort', endAll);
  };
}

function endAll({ target }: Event): void {
  for (const call of [...(callsOf.get(target as AbortSignal) ?? [])]) call.end('aborted');
}
