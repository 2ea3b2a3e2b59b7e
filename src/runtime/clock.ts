// Time for leases: the larger of the times that passed on the monotonic clock and on the wall clock.
// A monotonic clock may stand still while the machine is suspended; a wall clock may be set back.

import { inOwnContext } from './node.js';

/** A timer of a clock; only that clock can clear it. */
export interface Timer {
  ref(): unknown;
  unref(): unknown;
}

/** A source of time: the process, or a server in memory that can jump ahead. */
export interface Clock {
  /** Milliseconds on a monotonic clock. */
  nowMs(): number;
  /** Milliseconds since 1970 on the wall clock. */
  wallMs(): number;
  /**
   * Calls back once, in no caller's asynchronous context. A longer delay than MAX_TIMER_MS ends after MAX_TIMER_MS: the callback must check
   * the clock.
   */
  setTimer(callback: () => void, delayMs: number): Timer;
  clearTimer(timer: Timer | undefined): void;
}

export const PROCESS_CLOCK: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  setTimer: (callback, delayMs) => {
    const timerMs = Math.min(Math.max(Math.ceil(delayMs), 1), MAX_TIMER_MS);
    return inOwnContext(() => setTimeout(callback, timerMs));
  },
  clearTimer: (timer) => {
    clearTimeout(timer as NodeJS.Timeout | undefined);
  },
};

/** A number from 0 to 1, as `Math.random()` gives it. */
export const PROCESS_RANDOM = (): number => Math.random();

/** A point in time on both clocks, in milliseconds. */
export interface Instant {
  /** The clock that was read. */
  readonly clock: Clock;
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export function now(clock: Clock): Instant {
  return { clock, monotonicMs: clock.nowMs(), wallMs: clock.wallMs() };
}

/** Milliseconds from `since` to `at`, by default now. A caller that asks for many at a time reads `at` once. */
export function elapsedMs(since: Instant, at?: Instant): number {
  const monotonicMs = at ? at.monotonicMs : since.clock.nowMs();
  const wallMs = at ? at.wallMs : since.clock.wallMs();
  return Math.max(monotonicMs - since.monotonicMs, wallMs - since.wallMs);
}

/** How long something may go on. */
export interface TimeLimit {
  /** Remaining milliseconds; 0 or less when the time is over, or was ended early; Infinity: no limit. */
  readonly leftMs: number;
}

export const NO_LIMIT: TimeLimit = { leftMs: Infinity };

/** The longest delay that a Node.js timer takes; a longer one would fire at once. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1;

/** How long to pause after failed attempts; each pause is twice as long as the one before. */
export interface BackOff {
  readonly firstMs: number;
  readonly longestMs: number;
  /** The part of a pause, from 0 to 1, by which it may be longer or shorter, so that many clients do not retry in step. */
  readonly jitter: number;
}

/** Between attempts to connect: many processes must not come back at the same time. */
const RECONNECTING: BackOff = { firstMs: 50, longestMs: 1_000, jitter: 0.25 };

/** The pause after so many failed attempts, in milliseconds. */
export function backOffMs(
  attempt: number,
  random: () => number,
  { firstMs, longestMs, jitter }: BackOff = RECONNECTING,
): number {
  const pauseMs = Math.min(firstMs * 2 ** (attempt - 1), longestMs);
  return jitter === 0 ? pauseMs : pauseMs * (1 + jitter * (2 * random() - 1));
}
