// Virtual time: what is to happen, in the order in which it is due. Between two events everything runs that the former has set off.
import { setImmediate } from 'node:timers';
import type { Clock, Timer } from '../../src/runtime/clock.js';
import type { WorkTime } from '../chaos/worker/time.js';

/** 2026-01-01, so that a token that is a time has as many digits as a real one. */
const EPOCH_MS = 1_767_225_600_000;
const MAX_TIMER_MS = 2 ** 31 - 1;

class Event implements Timer {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
  isCancelled = false;

  constructor(atMs: number, order: number, run: () => void) {
    this.atMs = atMs;
    this.order = order;
    this.run = run;
  }

  ref(): void {
    return;
  }

  unref(): void {
    return;
  }

  isBefore(other: Event): boolean {
    return this.atMs < other.atMs || (this.atMs === other.atMs && this.order < other.order);
  }
}

export class VirtualTime {
  nowMs = 1_000;
  /** A binary heap. */
  readonly #heap: Event[] = [];
  #order = 0;

  at(atMs: number, run: () => void): Event {
    const event = new Event(Math.max(atMs, this.nowMs), this.#order++, run);
    this.#push(event);
    return event;
  }

  /** Plays until the time has come, or `isOver` says so. */
  async play(untilMs: number, isOver: () => boolean = () => false): Promise<void> {
    await settled();
    while (!isOver()) {
      const first = this.#heap[0];
      if (!first || first.atMs > untilMs) {
        this.nowMs = Math.max(this.nowMs, untilMs);
        return;
      }
      this.#pop();
      if (first.isCancelled) continue;
      this.nowMs = first.atMs;
      first.run();
      await settled();
    }
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let index = heap.length;
    while (index > 0) {
      const above = (index - 1) >> 1;
      if (!event.isBefore(heap[above]!)) break;
      heap[index] = heap[above]!;
      index = above;
    }
    heap[index] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let index = 0;
    for (;;) {
      let below = 2 * index + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && heap[below + 1]!.isBefore(heap[below]!)) below++;
      if (!heap[below]!.isBefore(last)) break;
      heap[index] = heap[below]!;
      index = below;
    }
    heap[index] = last;
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
