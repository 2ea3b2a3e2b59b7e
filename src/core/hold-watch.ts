// Finds holds that were forgotten: those that last long (`longHold`), and those whose object is gone without a release (`traceHolds`).

import type { Due, Schedule, Scheduled } from '../runtime/schedule.js';
import type { Warnings } from './events.js';

/** How often the same lock is reported at most, in milliseconds. */
const REPORT_EVERY_MS = 60_000;

/** A hold as it is watched. */
export interface WatchedHold {
  readonly lockName: string;
  readonly ownerId: string;
  /** What the caller said it wants the lock for. */
  readonly label: string | undefined;
}

export interface HoldWatchOptions {
  /** undefined: holds may last as long as they like. */
  readonly longHoldMs: number | undefined;
  /** Whether it finds holds whose object was garbage-collected without a release. */
  readonly tracesHolds: boolean;
}

export class HoldWatch implements Due {
  scheduled: Scheduled | undefined;
  readonly #options: HoldWatchOptions;
  readonly #schedule: Schedule;
  readonly #warnings: Warnings;
  /** When each hold that was not reported began, on the monotonic clock; oldest first. */
  readonly #young = new Map<WatchedHold, number>();
  /** When each lock was last reported, on the monotonic clock. */
  readonly #reportedAtMs = new Map<string, number>();
  readonly #registry: FinalizationRegistry<Lost> | undefined;

  /** undefined: nothing is to be watched. */
  static of(
    options: HoldWatchOptions,
    schedule: Schedule,
    warnings: Warnings,
  ): HoldWatch | undefined {
    const isWanted = options.longHoldMs !== undefined || options.tracesHolds;
    return isWanted ? new HoldWatch(options, schedule, warnings) : undefined;
  }

  private constructor(options: HoldWatchOptions, schedule: Schedule, warnings: Warnings) {
    this.#options = options;
    this.#schedule = schedule;
    this.#warnings = warnings;
    if (options.tracesHolds)
      this.#registry = new FinalizationRegistry(({ hold, stack }) => {
        this.#collected(hold, stack);
      });
  }

  /** Where the caller is, for a later report; '' unless that is traced. */
  get here(): string {
    if (!this.#options.tracesHolds) return '';
    const [, ...frames] = (new Error().stack ?? '').split('\n');
    // Ours say nothing to the caller.
    return frames.filter((frame) => !OWN_FRAME.test(frame)).join('\n');
  }

  began(hold: WatchedHold): void {
    const { longHoldMs } = this.#options;
    if (longHoldMs === undefined) return;
    this.#young.set(hold, this.#schedule.clock.nowMs());
    this.#schedule.within(this, longHoldMs);
  }

  ended(hold: WatchedHold): void {
    this.#young.delete(hold);
    if (this.#young.size === 0) this.#schedule.delete(this);
    this.#registry?.unregister(hold);
  }

  /**
   * What the caller gets in place of its hold, so that it can be seen when nobody has it any more: this client itself always has the hold.
   * `stack`: where it was acquired.
   */
  handOut<Held extends object>(held: Held, hold: WatchedHold, stack: string): Held {
    if (!this.#registry) return held;
    const handle = new Proxy(held, {
      // Its methods reach private fields, which the stand-in does not have.
      get: (target, property) => {
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
    this.#registry.register(handle, { hold, stack }, hold);
    return handle;
  }

  due(): void {
    const { longHoldMs = Infinity } = this.#options;
    const nowMs = this.#schedule.clock.nowMs();
    for (const [hold, atMs] of this.#young) {
      if (nowMs - atMs < longHoldMs) {
        this.#schedule.within(this, atMs + longHoldMs - nowMs);
        return;
      }
      this.#young.delete(hold);
      const forMs = Math.round(nowMs - atMs);
      this.#report(hold, nowMs, `has been held for ${String(forMs)} ms, longer than longHold`);
    }
  }

  #collected(hold: WatchedHold, stack: string): void {
    const nowMs = this.#schedule.clock.nowMs();
    const what = `is held by a hold that was never released, and that nobody has any more; it was acquired here:\n${stack}`;
    this.#report(hold, nowMs, what);
  }

  #report({ lockName, ownerId, label }: WatchedHold, nowMs: number, what: string): void {
    const lastMs = this.#reportedAtMs.get(lockName) ?? -Infinity;
    if (nowMs - lastMs < REPORT_EVERY_MS) return;
    for (const [name, atMs] of this.#reportedAtMs)
      if (nowMs - atMs >= REPORT_EVERY_MS) this.#reportedAtMs.delete(name);
    this.#reportedAtMs.set(lockName, nowMs);
    const purpose = label === undefined ? '' : ` (${label})`;
    this.#warnings.warn(
      'forgotten hold',
      lockName,
      `lock "${lockName}" ${what}${purpose}`,
      ownerId,
    );
  }
}

/** What the registry keeps of a handle: not the handle itself. */
interface Lost {
  readonly hold: WatchedHold;
  readonly stack: string;
}

const OWN_FRAME = /\/(core|locks|runtime|scopes)\/[\w-]+\.(js|ts):|node:internal/;
