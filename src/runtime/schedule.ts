// One timer for everything of one client that is due at a time: leases that end, rounds of renewals, unanswered commands.

import { PROCESS_CLOCK, type Clock, type Timer } from './clock.js';

/** If the wall clock gains so much on the monotonic one, the machine was suspended, or the clock was set: everything may be due. */
const CLOCK_STEP_MS = 10;

/** How often the clocks are compared while anything is scheduled: timers stand still in a suspended machine, and leases do not. */
const LOOK_EVERY_MS = 1_000;

/** An item that is due at a time, in one schedule. */
export interface Due {
  /** Its entry in the schedule, if it has one; only the schedule sets it. (A map of all entries would be as large again.) */
  scheduled: Scheduled | undefined;
  /** Called when its time may have come, after it left the schedule: does what is due, and schedules itself again if need be. */
  due(): void;
}

export interface Scheduled {
  readonly item: Due;
  /** When it is due, on the monotonic clock. */
  atMs: number;
  /** Its index in the heap. */
  index: number;
}

export class Schedule {
  readonly clock: Clock;
  /** A binary heap: an entry is due no later than those at twice its index, plus 1 and plus 2. */
  readonly #heap: Scheduled[] = [];
  #timer: Timer | undefined;
  /** When the timer rings, on the monotonic clock. It may ring when nothing is due any more. */
  #ringsAtMs = Infinity;
  #isStopped = false;
  /** How far the wall clock was ahead of the monotonic one: the least since the last step. */
  #aheadMs: number;

  constructor(clock: Clock = PROCESS_CLOCK) {
    this.clock = clock;
    this.#aheadMs = aheadMs(clock);
  }

  /** Schedules the item in so many milliseconds; an earlier time for which it is scheduled stays. */
  within(item: Due, delayMs: number): void {
    if (this.#isStopped) return;
    const atMs = this.clock.nowMs() + Math.max(delayMs, 1); // never in the present round
    const known = item.scheduled;
    if (known && known.atMs <= atMs) return;
    const entry = (item.scheduled ??= { item, atMs, index: this.#heap.length });
    entry.atMs = atMs;
    this.#rise(entry);
    if (this.#heap.length === 1) this.#timer?.ref();
    this.#arm();
  }

  delete(item: Due): void {
    if (!item.scheduled) return;
    this.#remove(item.scheduled);
    // An empty schedule keeps no process alive.
    if (this.#heap.length === 0) this.#timer?.unref();
  }

  /** Stops for good. */
  stop(): void {
    this.#isStopped = true;
    this.clock.clearTimer(this.#timer);
    for (const { item } of this.#heap.splice(0)) item.scheduled = undefined;
  }

  #arm(): void {
    const first = this.#heap[0];
    if (!first || first.atMs >= this.#ringsAtMs) return;
    this.clock.clearTimer(this.#timer);
    const nowMs = this.clock.nowMs();
    const delayMs = Math.min(first.atMs - nowMs, LOOK_EVERY_MS);
    this.#ringsAtMs = nowMs + delayMs;
    this.#timer = this.clock.setTimer(this.#ring, delayMs);
  }

  readonly #ring = (): void => {
    this.#timer = undefined;
    this.#ringsAtMs = Infinity;
    const nowMs = this.clock.nowMs();
    this.#noticeStep(nowMs);
    try {
      for (let [first] = this.#heap; first && first.atMs <= nowMs; [first] = this.#heap) {
        this.#remove(first);
        first.item.due();
      }
    } finally {
      this.#arm(); // also if one of them threw: the others are due in the next round
    }
  };

  /** Makes all items due now, after a step of the wall clock. (Their order stays, so the heap remains a heap.) */
  #noticeStep(nowMs: number): void {
    const ahead = aheadMs(this.clock);
    const isStep = ahead - this.#aheadMs > CLOCK_STEP_MS;
    if (isStep || ahead < this.#aheadMs) this.#aheadMs = ahead;
    if (isStep) for (const entry of this.#heap) entry.atMs = Math.min(entry.atMs, nowMs);
  }

  #remove({ item, index }: Scheduled): void {
    item.scheduled = undefined;
    const last = this.#heap.pop();
    if (!last || last.item === item) return;
    last.index = index;
    this.#heap[index] = last;
    this.#rise(last);
    this.#sink(last);
  }

  #rise(entry: Scheduled): void {
    let { index } = entry;
    while (index > 0) {
      const above = this.#heap[(index - 1) >> 1];
      if (!above || above.atMs <= entry.atMs) break;
      this.#put(above, index);
      index = (index - 1) >> 1;
    }
    this.#put(entry, index);
  }

  #sink(entry: Scheduled): void {
    for (;;) {
      const { index } = entry;
      const [left, right] = [this.#heap[2 * index + 1], this.#heap[2 * index + 2]];
      const below = right && left && right.atMs < left.atMs ? right : left;
      if (!below || below.atMs >= entry.atMs) return;
      this.#put(entry, below.index);
      this.#put(below, index);
    }
  }

  #put(entry: Scheduled, index: number): void {
    entry.index = index;
    this.#heap[index] = entry;
  }
}

function aheadMs(clock: Clock): number {
  return clock.wallMs() - clock.nowMs();
}
