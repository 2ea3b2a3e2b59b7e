// The clock of a server in memory and of its clients: the time of the process, until it jumps ahead. It keeps its timers in the order in
// which they are due, with one timer of the process for the first.

import { setImmediate } from 'node:timers'; // a test may have faked the global one
import { MAX_TIMER_MS, type Clock, type Timer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/node.js';

/** After so many events, and so many for each client, the clock goes on, although more follow: a loop without a pause never ends. */
const MOST_STIRS = 2_000;
const MOST_STIRS_OF_CLIENT = 100;

/**
 * When fake timers come or go, the wall clock may have gone on by so much since it was read last. A larger step means that fake timers have
 * set it.
 */
const LONGEST_UNSEEN_MS = 60_000;

/** The functions that give the process' time: a test may replace them, and put them back. */
interface Source {
  readonly monotonic: typeof performance;
  readonly wall: DateConstructor;
  /** The times that they gave when they were first seen. */
  readonly sinceMonotonicMs: number;
  readonly sinceWallMs: number;
  /** Our time at that moment, plus the jumps since. */
  readonly beganAtMs: number;
}

/** The timer of the process. */
interface Alarm {
  readonly timer: NodeJS.Timeout;
  /** The function that clears it, of the same set of functions as the one that has set it. */
  readonly clear: typeof clearTimeout;
  readonly rings: MemoryTimer;
}

export class MemoryClock implements Clock {
  readonly #timers: MemoryTimer[] = [];
  #source: Source;
  #nowMs: number;
  /** The wall clock of the process when the time was read last. */
  #seenWallMs: number;
  /** How far the wall clock is ahead of the monotonic one; that never changes. */
  readonly #wallAheadMs: number;
  #alarm: Alarm | undefined;
  /** How many events there were, including timers that were set. */
  #stirCount = 0;
  #refCount = 0;
  #advancing: Promise<void> = Promise.resolve();
  /** How many clients use, or have used, this clock. */
  clientCount = 0;

  constructor() {
    // Each clock is read once: the process may stand still between two lines.
    const source = sourceNow();
    this.#nowMs = Math.floor(source.sinceMonotonicMs);
    this.#source = { ...source, beganAtMs: this.#nowMs };
    this.#seenWallMs = this.#source.sinceWallMs;
    this.#wallAheadMs = this.#seenWallMs - this.#nowMs;
  }

  nowMs(): number {
    const { monotonic, wall } = this.#source;
    if (monotonic !== performance || wall !== Date) this.#changeSource();
    const { sinceMonotonicMs, sinceWallMs, beganAtMs } = this.#source;
    this.#seenWallMs = Date.now();
    // The larger of both, since fake timers may move only one of them.
    const passedMs = Math.max(performance.now() - sinceMonotonicMs, this.#seenWallMs - sinceWallMs);
    return (this.#nowMs = Math.max(this.#nowMs, beganAtMs + passedMs));
  }

  wallMs(): number {
    return this.nowMs() + this.#wallAheadMs;
  }

  setTimer(callback: () => void, delayMs: number): Timer {
    const atMs = this.nowMs() + Math.min(Math.max(Math.ceil(delayMs), 1), MAX_TIMER_MS);
    const timer = new MemoryTimer(callback, atMs, ++this.#stirCount, (change) => {
      this.#refCount += change;
      this.#keepAlive();
    });
    this.#timers.splice(this.#indexOf(timer), 0, timer);
    this.#refCount++;
    this.#arm();
    this.#keepAlive();
    return timer;
  }

  clearTimer(timer: Timer | undefined): void {
    if (timer instanceof MemoryTimer && this.#remove(timer)) this.#arm();
  }

  /** Notes an event, whose consequences may be still to come. */
  stir(): void {
    this.#stirCount++;
  }

  /** Plays the timers of the next so many milliseconds, one after another. */
  advance(ms: number): Promise<void> {
    const advanced = this.#advancing.then(() => this.#advance(ms));
    this.#advancing = advanced.catch(() => undefined);
    return advanced;
  }

  async #advance(ms: number): Promise<void> {
    await this.#settle();
    const untilMs = this.nowMs() + ms;
    for (let [first] = this.#timers; first && first.atMs <= untilMs; [first] = this.#timers) {
      this.#jump(first.atMs);
      this.#fire(first);
      await this.#settle();
    }
    this.#jump(untilMs);
    await this.#settle();
  }

  /** Waits until two turns of the event loop in a row have brought no event: all messages have been received and answered. */
  async #settle(): Promise<void> {
    const end = this.#stirCount + MOST_STIRS + MOST_STIRS_OF_CLIENT * this.clientCount;
    for (let quietTurns = 0; quietTurns < 2 && this.#stirCount < end;) {
      const before = this.#stirCount;
      await new Promise((resolve) => setImmediate(resolve));
      quietTurns = this.#stirCount === before ? quietTurns + 1 : 0;
    }
  }

  #jump(toMs: number): void {
    const aheadMs = toMs - this.nowMs();
    if (aheadMs <= 0) return;
    this.#nowMs = toMs;
    this.#source = { ...this.#source, beganAtMs: this.#source.beganAtMs + aheadMs };
    this.#disarm();
    this.#arm();
  }

  /** (To whole milliseconds: a fake timer that is due half a millisecond later would ring too late.) */
  #changeSource(): void {
    const source = sourceNow();
    const unseenMs = source.sinceWallMs - this.#seenWallMs;
    const passedMs = unseenMs <= LONGEST_UNSEEN_MS ? Math.max(unseenMs, 0) : 0;
    this.#nowMs = Math.ceil(this.#nowMs + passedMs);
    this.#source = { ...source, beganAtMs: this.#nowMs };
    // The timer functions have changed together with the time functions.
    this.#disarm();
    this.#arm();
  }

  /** Sets the process' timer for the first of ours. */
  #arm(): void {
    const [first] = this.#timers;
    if (this.#alarm?.rings === first) return;
    this.#disarm();
    if (!first) return;
    const delayMs = Math.max(Math.ceil(first.atMs - this.nowMs()), 1);
    const timer = inOwnContext(() => setTimeout(this.#ring, delayMs));
    this.#alarm = { timer, clear: clearTimeout, rings: first };
    this.#keepAlive();
  }

  #disarm(): void {
    this.#alarm?.clear(this.#alarm.timer);
    this.#alarm = undefined;
  }

  /** Keeps the process alive for as long as one of our timers would. */
  #keepAlive(): void {
    if (this.#refCount > 0) this.#alarm?.timer.ref();
    else this.#alarm?.timer.unref();
  }

  readonly #ring = (): void => {
    this.#alarm = undefined;
    const nowMs = this.nowMs();
    try {
      for (let [first] = this.#timers; first && first.atMs <= nowMs; [first] = this.#timers)
        this.#fire(first);
    } finally {
      this.#arm();
    }
  };

  #fire(timer: MemoryTimer): void {
    this.#remove(timer);
    inOwnContext(timer.callback);
  }

  #remove(timer: MemoryTimer): boolean {
    const index = this.#indexOf(timer);
    if (this.#timers[index] !== timer) return false;
    this.#timers.splice(index, 1);
    timer.unref();
    return true;
  }

  /** The index at which it stands, or would stand. */
  #indexOf({ atMs, number }: MemoryTimer): number {
    let [low, high] = [0, this.#timers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#timers[middle];
      if (!other) break;
      const isBefore = other.atMs < atMs || (other.atMs === atMs && other.number < number);
      if (isBefore) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

class MemoryTimer implements Timer {
  readonly callback: () => void;
  readonly atMs: number;
  readonly number: number;
  readonly #counted: (change: 1 | -1) => void;
  #isRef = true;

  constructor(
    callback: () => void,
    atMs: number,
    number: number,
    counted: (change: 1 | -1) => void,
  ) {
    this.callback = callback;
    this.atMs = atMs;
    this.number = number;
    this.#counted = counted;
  }

  ref(): void {
    if (!this.#isRef) this.#counted(1);
    this.#isRef = true;
  }

  unref(): void {
    if (this.#isRef) this.#counted(-1);
    this.#isRef = false;
  }
}

function sourceNow(): Omit<Source, 'beganAtMs'> {
  return {
    monotonic: performance,
    wall: Date,
    sinceMonotonicMs: performance.now(),
    sinceWallMs: Date.now(),
  };
}
