// Virtual time: what is to happen, in the order in which it is due. Between two events everything runs that the former has set off.
import { setImmediate } from 'node:timers';
import type { Clock, Timer } from '../../src/runtime/clock.js';
import type { WorkTime } from '../chaos/worker/time.js';

/** 2026-01-01, so that a token that is a time has as many digits as a real one. */
const EPOCH_MS = 1_767_225_600_000;
const MAX_TIMER_MS = 2 ** 31 - 1;

class Event implements Timer {
  readonly atMs: number;
  readonly run: () => void;
  isCancelled = false;

  constructor(atMs: number, run: () => void) {
    this.atMs = atMs;
    this.run = run;
  }

  ref(): void {
    return;
  }

  unref(): void {
    return;
  }
}

export class VirtualTime {
  nowMs = 1_000;
  /** The last one is due first. */
  readonly #events: Event[] = [];

  at(atMs: number, run: () => void): Event {
    const event = new Event(Math.max(atMs, this.nowMs), run);
    let [low, high] = [0, this.#events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#events[middle]!.atMs > event.atMs) low = middle + 1;
      else high = middle;
    }
    this.#events.splice(low, 0, event);
    return event;
  }

  /** Plays until the time has come, or `isOver` says so. */
  async play(untilMs: number, isOver: () => boolean = () => false): Promise<void> {
    await settled();
    while (!isOver()) {
      const first = this.#events.at(-1);
      if (!first || first.atMs > untilMs) {
        this.nowMs = Math.max(this.nowMs, untilMs);
        return;
      }
      this.#events.pop();
      if (first.isCancelled) continue;
      this.nowMs = first.atMs;
      first.run();
      await settled();
    }
  }
}

/** Promises, ticks and immediates run in an order of their own, which is always the same: no socket and no timer of Node.js comes between. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** What outlives a process. */
export interface Machine {
  /** How far its wall clock is ahead of the true time. */
  wallAheadMs: number;
  /**
   * What happens to its clocks in this round: the wall clock is set, or the monotonic one stands still while the machine sleeps. With both at once
   * no clock would tell how long it slept.
   */
  upset?: 'set' | 'asleep';
}

/** A process: its clocks, and what is due in it. It may be stopped, suspended, and killed. */
export class SimProcess implements WorkTime {
  readonly #time: VirtualTime;
  /** Timers of its clients that are set and have not rung. */
  readonly timers = new Set<Timer>();
  #state: 'running' | 'stopped' | 'killed' = 'running';
  /** What was due while it was stopped. */
  #backlog: (() => void)[] = [];
  #stoppedAtMs = 0;
  #suspendedMs = 0;
  readonly #machine: Machine;

  constructor(time: VirtualTime, machine: Machine) {
    this.#time = time;
    this.#machine = machine;
  }

  get isStopped(): boolean {
    return this.#state === 'stopped';
  }

  /** On the monotonic clock of the machine it runs on. */
  readonly clock: Clock = {
    nowMs: () => this.#time.nowMs - this.#suspendedMs,
    wallMs: () => EPOCH_MS + this.#time.nowMs + this.#machine.wallAheadMs,
    setTimer: (callback, delayMs) => {
      const timer = this.#setTimer(() => {
        this.timers.delete(timer);
        callback();
      }, delayMs);
      this.timers.add(timer);
      return timer;
    },
    clearTimer: (timer) => {
      if (!(timer instanceof Event)) return;
      timer.isCancelled = true;
      this.timers.delete(timer);
    },
  };

  /** The true time, in which the journal is written. */
  nowMs(): number {
    return this.#time.nowMs;
  }

  #setTimer(callback: () => void, delayMs: number): Timer {
    const inMs = Math.min(Math.max(Math.ceil(delayMs), 1), MAX_TIMER_MS);
    const timer = this.#time.at(this.#time.nowMs + inMs, () => {
      this.enter(() => {
        if (!timer.isCancelled) callback();
      });
    });
    return timer;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#setTimer(resolve, ms));
  }

  nextTurn(): Promise<void> {
    return new Promise((resolve) =>
      this.#time.at(this.#time.nowMs, () => {
        this.enter(resolve);
      }),
    );
  }

  timeout(ms: number): AbortSignal {
    const controller = new AbortController();
    this.#setTimer(() => {
      controller.abort(new DOMException('the time is over', 'TimeoutError'));
    }, ms);
    return controller.signal;
  }

  /** Runs what is due, as soon as the process runs; never, if it was killed. */
  enter(run: () => void): void {
    if (this.#state === 'stopped') this.#backlog.push(run);
    else if (this.#state === 'running') run();
  }

  stop(): void {
    if (this.#state !== 'running') return;
    this.#state = 'stopped';
    this.#stoppedAtMs = this.#time.nowMs;
  }

  /** Everything that came meanwhile is there at once. `isSuspended`: its monotonic clock stood still. */
  resume(isSuspended = false): void {
    if (this.#state !== 'stopped') return;
    this.#state = 'running';
    if (isSuspended) this.#suspendedMs += this.#time.nowMs - this.#stoppedAtMs;
    const due = this.#backlog;
    this.#backlog = [];
    for (const run of due)
      this.#time.at(this.#time.nowMs, () => {
        this.enter(run);
      });
  }

  kill(): void {
    this.#state = 'killed';
    this.#backlog = [];
    this.timers.clear();
  }
}
