// One caller in the line of its client for a lock, who sleeps until it is its turn to try.

import type { Clock, Timer } from '../runtime/clock.js';
import type { Findings } from './findings.js';

/** What decides when a caller has its turn among the waiters of its client, besides the order in which they came. */
export interface Seniority {
  /** Since when it has waited, on the monotonic clock. */
  readonly sinceMs?: number | undefined;
  /** For how long it lets others try first, in other processes, too, when it is woken; in milliseconds. */
  readonly deferMs?: (() => number) | undefined;
}

/** The line, as those in it see it. */
interface Lined {
  readonly clock: Clock;
  readonly findings: Findings;
  isTrying(sleeper: object): boolean;
  beckon(sleeper: object): void;
  stillHeld(sleeper: object, ttlMs: number): void;
  look(sinceMs: number): void;
  leave(sleeper: object, leaseMs?: number): void;
}

export class Sleeper<Heir = unknown> {
  readonly #line: Lined;
  /** Since when it has waited, on the monotonic clock. */
  readonly sinceMs: number;
  /** Who takes over this client's grant when this sleeper is first in line; undefined: the caller has to ask the server. */
  readonly heir: Heir | undefined;
  readonly #deferMs: (() => number) | undefined;
  #woken!: Promise<void>;
  #wake!: () => void;
  #deferTimer: Timer | undefined;

  constructor(line: Lined, { sinceMs = line.clock.nowMs(), deferMs }: Seniority, heir?: Heir) {
    this.#line = line;
    this.sinceMs = sinceMs;
    this.#deferMs = deferMs;
    this.heir = heir;
    this.#sleep();
  }

  /** Resolves when it is this caller's turn to try. */
  get woken(): Promise<void> {
    return this.#woken;
  }

  /** Whether this caller is the one to try. */
  get mayTry(): boolean {
    return this.#line.isTrying(this);
  }

  /** The first in line takes over a grant without asking the server: nobody else tries until it leaves. */
  takeTurn(): void {
    this.#line.beckon(this);
    this.#wake();
  }

  /** The try found the lock held for `ttlMs` more (-1: no expiry): sleeps on, at the same place. */
  stillHeld(ttlMs: number): void {
    this.#sleep();
    this.#line.stillHeld(this, ttlMs);
  }

  get findings(): Findings {
    return this.#line.findings;
  }

  /** Has the first in line try now, unless a try is under way that began at `sinceMs` (monotonic) or later, or this client has the lock. */
  look(sinceMs: number): void {
    this.#line.look(sinceMs);
  }

  /** Leaves the line: with the lock for `leaseMs`, or without; then a wake-up that it did not use goes to the next. */
  leave(leaseMs?: number): void {
    this.#line.clock.clearTimer(this.#deferTimer);
    this.#line.leave(this, leaseMs);
  }

  wake(): void {
    const deferMs = this.#deferMs?.() ?? 0;
    if (deferMs > 0) this.#deferTimer = this.#line.clock.setTimer(this.#wake, deferMs);
    else this.#wake();
  }

  #sleep(): void {
    this.#woken = new Promise((resolve) => (this.#wake = resolve));
  }
}
