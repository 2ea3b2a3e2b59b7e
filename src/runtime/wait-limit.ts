// How long one call may go on: its wait, its caller's signal, its client's close. Ends whatever it is awaiting.

import { nextTick } from 'node:process';
import { type Clock, PROCESS_CLOCK, type TimeLimit, type Timer } from './clock.js';

// How long an attempt has at least for its answer, however short the wait of its call is: a wait of 1 ms may be shorter than any round trip.

/** How long that is, in milliseconds. */
const SPARED_MS = 100;

export class SparedAttempt {
  readonly #clock: Clock;
  /** On the monotonic clock; 0: no attempt is under way, Infinity: the one that has begun is still to be sent. */
  #untilMs = 0;
  #isFixed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** An attempt begins. What is gathered is sent at the end of this turn of the event loop, which may be long. */
  begin(): void {
    if (this.#isFixed) return;
    this.#untilMs = Infinity;
    nextTick(sent, this);
  }

  /** No attempt is under way any more. */
  end(): void {
    if (!this.#isFixed) this.#untilMs = 0;
  }

  /** Spares what is under way for so long from now on. */
  extend(ms: number): void {
    if (!this.#isFixed) this.#untilMs = Math.max(this.#untilMs, this.#clock.nowMs() + ms);
  }

  /** What begins or ends from now on changes nothing. Returns whether anything is under way that is spared. */
  fix(): boolean {
    this.#isFixed ||= this.leftMs > 0;
    return this.leftMs > 0;
  }

  /** Whether it is fixed: the wait is over, and its call goes on for the attempt alone. */
  get isFixed(): boolean {
    return this.#isFixed;
  }

  get leftMs(): number {
    return this.#untilMs === Infinity ? SPARED_MS : this.#untilMs - this.#clock.nowMs();
  }

  sent(): void {
    if (this.#untilMs === Infinity) this.#untilMs = this.#clock.nowMs() + SPARED_MS;
  }
}

function sent(attempt: SparedAttempt): void {
  attempt.sent();
}

/** How long before the end of a long wait there is a last look: early enough for a slow server to answer. */
const LAST_LOOK_MS = 800;

/**
 * How late a wait may end, in milliseconds: for the sake of an attempt that is under way; and if the event loop was blocked for longer, a
 * last look has so long for its answer.
 */
export const LATE_MS: number = SPARED_MS;

/** How often a call that goes on for a look alone asks whether that was answered, in milliseconds. */
const ASK_EVERY_MS = 5;

/** Why a call may not go on. */
export type Ending = 'timeout' | 'aborted' | 'closed';

/** Thrown out of an await when the wait is over. */
export class WaitEnded extends Error {
  readonly ending: Ending;
  /** What went wrong before the wait was over. */
  readonly trouble: Error | undefined;

  constructor(ending: Ending, trouble?: Error) {
    super(ending);
    this.ending = ending;
    this.trouble = trouble;
  }
}

/** A call that somebody else may have to end. */
export interface Call {
  /** The lock's id, if the call is a `lock()` or `tryLock()` outside any run. */
  readonly anonymousLockId?: string | undefined;
  end(ending: Ending): void;
}

export interface WaitLimitOptions {
  /** Its time; left out: that of the process. */
  clock?: Clock;
  /** Milliseconds; Infinity: no limit. */
  limitMs: number;
  signal?: AbortSignal | undefined;
  /** Whether an attempt that is under way when the time is over has its time all the same, with which the limit has nothing to do. */
  sparesAttempts?: boolean;
  /** Whether the call is a single attempt, or a look, which does not wait for a server that is known to be down. */
  isSingleAttempt?: boolean;
  /** The lock's id, if the call is a `lock()` or `tryLock()` outside any run. */
  anonymousLockId?: string | undefined;
  /** Where a closing client finds the calls that it has to end. */
  registry?: Set<Call> | undefined;
}

export class WaitLimit implements TimeLimit, Call {
  /** What went wrong so far, for whoever has to explain the end. */
  trouble: Error | undefined;
  /** Whether a command was sent that may have been executed though no answer came. */
  mayHaveRun = false;
  readonly clock: Clock;
  readonly isSingleAttempt: boolean;
  readonly anonymousLockId: string | undefined;
  readonly #registry: Set<Call> | undefined;
  #endsAtMs: number;
  /** The attempt that is under way, or none; undefined: attempts are not spared. */
  readonly #spared: SparedAttempt | undefined;
  #timer: Timer | undefined;
  readonly #stopListening: (() => void) | undefined;
  #ending: Ending | undefined;
  /** Rejects the promise that is awaited now. */
  #stop: ((over: WaitEnded) => void) | undefined;
  /** Wakes the sleep that is going on now. */
  #wake: (() => void) | undefined;
  #shallLookAgain = false;
  #look: (() => boolean) | undefined;
  /** When the look before the end is to come, on the monotonic clock; Infinity: it was, or there is none. */
  #lookAtMs = Infinity;

  constructor({
    clock = PROCESS_CLOCK,
    limitMs,
    signal,
    registry,
    anonymousLockId,
    isSingleAttempt = false,
    sparesAttempts = false,
  }: WaitLimitOptions) {
    this.clock = clock;
    this.anonymousLockId = anonymousLockId;
    this.isSingleAttempt = isSingleAttempt;
    this.#registry = registry;
    this.#endsAtMs = clock.nowMs() + limitMs;
    if (sparesAttempts && limitMs !== Infinity) this.#spared = new SparedAttempt(clock);
    if (signal) this.#stopListening = endOnAbort(signal, this);
    registry?.add(this);
  }

  /** How long the call may go on, in milliseconds; 0 or less when it is over. */
  get leftMs(): number {
    if (this.#ending) return 0;
    return Math.max(this.#endsAtMs - this.clock.nowMs(), this.#spared?.leftMs ?? 0);
  }

  /** Whether the time is over, and the call goes on for an attempt that was under way then. */
  get isOverdue(): boolean {
    return this.#spared?.isFixed ?? false;
  }

  /** The promise's outcome, or WaitEnded if that comes first. A later outcome is dropped: the caller has to undo it where need be. */
  within<T>(promise: Promise<T>): Promise<T> {
    this.#spared?.end();
    return this.#bounded(promise);
  }

  /** Like `within`, for an attempt, which `send` begins. */
  attempt<T>(send: () => Promise<T>): Promise<T> {
    this.#spared?.begin();
    return this.#bounded(send());
  }

  #bounded<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      promise.then(resolve, reject);
      this.#stopWith(reject);
    });
  }

  /**
   * Like `within`, for idle waits: `lookAgain` ends it too. True if the promise resolved, false if it did not.
   *
   * @param isForAttempt - whether another call's attempt is awaited, whose outcome is this call's, too
   */
  sleep(promise: Promise<void>, isForAttempt = false): Promise<boolean> {
    if (isForAttempt) this.#spared?.begin();
    else if (this.isOverdue) this.end('timeout');
    else this.#spared?.end();
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

  /** When the time is over, on the monotonic clock. */
  get endsAtMs(): number {
    return this.#endsAtMs;
  }

  /**
   * Has `look` called shortly before the time is over: what the caller is told then must not rest on what was known long ago. If the event
   * loop was blocked until later, `look` is called then, and the time is over a moment after that. It returns whether what it looks for is
   * known already; the end waits a moment for that.
   */
  lookBeforeEnd(look: () => boolean): void {
    if (this.#endsAtMs === Infinity) return;
    this.#look = look;
    this.#lookAtMs = Math.max(this.#endsAtMs - LAST_LOOK_MS, this.clock.nowMs());
    this.clock.clearTimer(this.#timer);
    this.#checkIn(this.#untilNextMs);
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

  /** Has `stop` called when the wait is over. (The timer is set when something is awaited: by then a command is on its way.) */
  #stopWith(stop: (over: WaitEnded) => void): void {
    if (this.#ending) {
      stop(new WaitEnded(this.#ending, this.trouble));
      return;
    }
    this.#stop = stop;
    if (this.#endsAtMs !== Infinity && !this.#timer) this.#checkIn(this.#untilNextMs);
  }

  assertNotOver(): void {
    if (this.#ending) throw new WaitEnded(this.#ending, this.trouble);
  }

  end(ending: Ending): void {
    if (this.#ending) return;
    this.#ending = ending;
    this.#stop?.(new WaitEnded(ending, this.trouble));
  }

  dispose(): void {
    this.clock.clearTimer(this.#timer);
    this.#stopListening?.();
    this.#registry?.delete(this);
  }

  /** Milliseconds until the last look, if one is to come, or until the end. */
  get #untilNextMs(): number {
    const leftMs = Math.min(this.#lookAtMs, this.#endsAtMs) - this.clock.nowMs();
    return this.isOverdue ? Math.max(leftMs, this.#spared?.leftMs ?? 0) : leftMs;
  }

  /** The time is over, and so is the call, unless something is under way that is spared. */
  #timeOut(): void {
    const isAsleep = this.#wake !== undefined;
    if ((isAsleep && this.#look?.()) || !this.#spared?.fix()) {
      this.end('timeout');
      return;
    }
    if (isAsleep) this.#timeOutIn(ASK_EVERY_MS);
    else this.#checkIn(this.#untilNextMs);
  }

  /** Looks at the clock, since a timer may be early, or too short for a long wait. */
  #checkTime(): void {
    if (this.#untilNextMs <= 1) this.#lookNow();
    const leftMs = this.#untilNextMs;
    // After a blocked event loop the call may be about to send its attempt, or have a step to go after the answer that is here.
    if (leftMs < 0 && !this.#wake) this.#spared?.extend(Math.min(-leftMs, LATE_MS));
    if (leftMs > 1) this.#checkIn(leftMs);
    // After a blocked event loop the answer may be here, unread: one turn of the loop reads it first.
    else this.#timeOutIn(1);
  }

  /** Looks if the look before the end is due; once more if the end comes so late that what that look found is old. */
  #lookNow(): void {
    const look = this.#look;
    const isLate = this.#untilNextMs < -LATE_MS;
    const hasLooked = this.#lookAtMs === Infinity;
    if (!look || (hasLooked && !isLate)) return;
    if (hasLooked) this.#look = undefined; // a second time at most
    this.#lookAtMs = Infinity;
    if (isLate) this.#endsAtMs = Math.max(this.#endsAtMs, this.clock.nowMs() + LATE_MS);
    if (!look()) this.#spared?.extend(LATE_MS);
  }

  #checkIn(delayMs: number): void {
    this.#timer = this.clock.setTimer(() => {
      this.#checkTime();
    }, delayMs);
  }

  #timeOutIn(delayMs: number): void {
    this.#timer = this.clock.setTimer(() => {
      this.#timeOut();
    }, delayMs);
  }
}

// The calls that end with one signal, and its one listener: Node.js warns of more than ten.

/** A call that an abort ends. */
interface Abortable {
  end(ending: 'aborted'): void;
}

const callsOf = new WeakMap<AbortSignal, Set<Abortable>>();

/** Has the signal end a call, until the function that this returns is called. */
function endOnAbort(signal: AbortSignal, call: Abortable): () => void {
  const calls = callsOf.get(signal) ?? new Set<Abortable>();
  callsOf.set(signal, calls.add(call));
  signal.addEventListener('abort', endAll); // once in all, however many calls there are
  return () => {
    calls.delete(call);
    if (calls.size === 0) signal.removeEventListener('abort', endAll);
  };
}

function endAll({ target }: Event): void {
  for (const call of [...(callsOf.get(target as AbortSignal) ?? [])]) call.end('aborted');
}
