// Time in tests: what is true soon, what must settle, how long a busy machine kept this process from running.
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Sleeps on the timers that are global at the moment, which may be fake ones: those of `node:timers/promises` are always real. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Resolves to what `check` returns once it no longer throws; after `timeoutMs`, throws its last error. */
export async function eventually<T>(check: () => T | Promise<T>, timeoutMs = 10_000): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(10);
    }
  }
}

// For promises that must settle: a test that waits for one that never does says so itself.

export const NEVER: unique symbol = Symbol('it did not settle');

export async function settledWithin<T>(promise: Promise<T>, ms: number): Promise<T | typeof NEVER> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<typeof NEVER>((resolve) => {
    timer = setTimeout(resolve, ms, NEVER);
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves as the promise does; throws this message if it takes longer than `ms` milliseconds to settle. */
export async function inTime<T>(promise: Promise<T>, ms: number, message: string): Promise<T> {
  const settled = await settledWithin(promise, ms);
  if (settled === NEVER) throw new Error(message);
  return settled;
}

// How long this process was kept from running: on a busy machine, what a time limit must not be held against.

export class EventLoopLag implements Disposable {
  readonly #delays = monitorEventLoopDelay({ resolution: 5 });

  constructor() {
    this.#delays.enable();
  }

  /** The longest time since the beginning in which nothing ran, in milliseconds. */
  get longestMs(): number {
    const longestMs = this.#delays.max / 1e6;
    return this.#delays.count > 0 ? longestMs : 0;
  }

  [Symbol.dispose](): void {
    this.#delays.disable();
  }
}

// A clock that all processes of this machine share, so that a test can compare what happened in several of them.

/** Milliseconds on the machine's monotonic clock, with fractions. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/**
 * The median of three measurements; two below `enoughMs` end them early. A busy machine delays something now and then, a defect does
 * so more often than not.
 */
export async function medianOf(enoughMs: number, measure: () => Promise<number>): Promise<number> {
  const tookMs: number[] = [];
  while (tookMs.length < 3 && tookMs.filter((ms) => ms < enoughMs).length < 2) {
    tookMs.push(await measure());
  }
  return tookMs.sort((one, other) => one - other)[1]!;
}
