// Those of one client who wait for one lock: woken one at a time, in order, by a message or by the end of the
// holder's lease. While the lock is held they send next to nothing, however many they are: messages are hints that may get lost,
// so now and then the first looks for itself.

import { setTimer } from '../runtime/clock.js';
import type { ChannelListener, Subscription } from './channels.js';
import { Findings } from './findings.js';

/** What a caller may claim among those who wait with it, where that is not just that it came before them. */
export interface Seniority {
  /** Since when it has waited, on the monotonic clock. */
  readonly sinceMs?: number | undefined;
  /** For how long it lets others try first, in other processes, too, when it is woken; in milliseconds. */
  readonly deferMs?: (() => number) | undefined;
}

/** One waiter's place in the line. */
export class Place {
  readonly #line: Line;
  /** Since when it has waited, on the monotonic clock. */
  readonly sinceMs: number;
  readonly #deferMs: (() => number) | undefined;
  #woken!: Promise<void>;
  #wake!: () => void;
  #deferTimer: NodeJS.Timeout | undefined;

  constructor(line: Line, { sinceMs = performance.now(), deferMs }: Seniority) {
    this.#line = line;
    this.sinceMs = sinceMs;
    this.#deferMs = deferMs;
    this.#sleep();
  }

  /** Resolves when it is this waiter's turn to try. */
  get woken(): Promise<void> {
    return this.#woken;
  }

  /** Whether this waiter is the one to try. */
  get mayTry(): boolean {
    return this.#line.isTrying(this);
  }

  /** The try found the lock held for `ttlMs` more (-1: no expiry): sleeps on, at the same place. */
  stillHeld(ttlMs: number): void {
    this.#sleep();
    this.#line.stillHeld(this, ttlMs);
  }

  get findings(): Findings {
    return this.#line.findings;
  }

  /** The first in the line tries now, unless it does already, since `sinceMs` (monotonic) or later. */
  look(sinceMs: number): void {
    this.#line.look(sinceMs);
  }

  /** Leaves the line: with the lock for `leaseMs`, or without; then a wake-up that it did not use goes to the next. */
  leave(leaseMs?: number): void {
    clearTimeout(this.#deferTimer);
    this.#line.leave(this, leaseMs);
  }

  wake(): void {
    const deferMs = this.#deferMs?.() ?? 0;
    if (deferMs > 0) this.#deferTimer = setTimer(this.#wake, deferMs);
    else this.#wake();
  }

  #sleep(): void {
    this.#woken = new Promise((resolve) => (this.#wake = resolve));
  }
}

/** Why somebody tries. Of a mere look the answer is shared also when the asker has gone: nobody need try in its place. */
type Reason = 'may be free' | 'look';

export class Line implements ChannelListener {
  readonly findings: Findings = new Findings();
  readonly #subscription: Subscription;
  readonly #lookEveryMs: number;
  readonly #onEmpty: () => void;
  /** Who has waited for longest comes first. */
  readonly #places = new Set<Place>();
  #youngestSinceMs = 0;
  #trying: Place | undefined;
  /** Since when, on the monotonic clock. */
  #tryingSinceMs = 0;
  /** What for. */
  #reason: Reason = 'may be free';
  /** What for somebody has to try after that one, whose try may have been too early. */
  #next: Reason | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** When the timer goes off, on the monotonic clock. */
  #lookAtMs = Infinity;

  /** `lookEveryMs`: how long whoever is first sleeps at most, heard or not heard. */
  constructor(
    subscribe: (listener: ChannelListener) => Subscription,
    lookEveryMs: number,
    onEmpty: () => void,
  ) {
    this.#subscription = subscribe(this);
    this.#lookEveryMs = lookEveryMs;
    this.#onEmpty = onEmpty;
  }

  /**
   * Joins behind those who have waited for longer, after a try that was sent at `triedAtMs` (monotonic) and found the lock held
   * for `ttlMs` more.
   */
  join(triedAtMs: number, ttlMs: number, seniority: Seniority = {}): Place {
    const place = new Place(this, seniority);
    this.#enter(place);
    const atMs = this.#nextLookAtMs(ttlMs);
    if (atMs < this.#lookAtMs) this.#lookAt(atMs);
    // Released after that try was answered, and told before we listened: the message may even overtake the answer.
    if (this.#subscription.mayHaveMissed(triedAtMs)) this.#wake();
    return place;
  }

  #enter(place: Place): void {
    const isYounger = this.#youngestSinceMs <= place.sinceMs;
    this.#youngestSinceMs = Math.max(this.#youngestSinceMs, place.sinceMs);
    const younger = isYounger
      ? []
      : [...this.#places].filter(({ sinceMs }) => sinceMs > place.sinceMs);
    this.#places.add(place);
    for (const other of younger) {
      this.#places.delete(other);
      this.#places.add(other);
    }
  }

  isTrying(place: Place): boolean {
    return this.#trying === place;
  }

  stillHeld(place: Place, ttlMs: number): void {
    if (this.#trying === place) this.#trying = undefined;
    this.#lookAt(this.#nextLookAtMs(ttlMs));
    if (this.#next) this.#wake(this.#next);
  }

  leave(place: Place, leaseMs?: number): void {
    this.#places.delete(place);
    const wasTrying = this.#trying === place;
    if (wasTrying) this.#trying = undefined;
    if (this.#places.size === 0) {
      clearTimeout(this.#timer);
      this.#subscription.close();
      this.#onEmpty();
      return;
    }
    if (leaseMs !== undefined) this.#lookAt(this.#nextLookAtMs(leaseMs));
    else if (wasTrying && this.#reason === 'may be free') this.#wake();
    if (this.#next) this.#wake(this.#next);
  }

  look(sinceMs: number): void {
    if (!this.#trying || this.#tryingSinceMs < sinceMs) this.#wake('look');
  }

  subscribed(): void {
    this.#wake();
  }

  message(): void {
    this.#wake();
  }

  #wake(reason: Reason = 'may be free'): void {
    if (this.#trying) {
      if (this.#next !== 'may be free') this.#next = reason;
      return;
    }
    this.#next = undefined;
    const first = this.#places.values().next();
    if (first.done) return;
    this.#reason = reason;
    this.#trying = first.value;
    this.#tryingSinceMs = performance.now();
    first.value.wake();
  }

  /**
   * A message may never come: its sender died, or may not publish; nobody tells a subscription that its connection is dead. So a
   * lock that is held for `ttlMs` more (-1: no expiry) is looked at when that is over, and before that every now and then.
   */
  #nextLookAtMs(ttlMs: number): number {
    return performance.now() + Math.min(ttlMs < 0 ? Infinity : ttlMs, this.#lookEveryMs);
  }

  #lookAt(atMs: number): void {
    clearTimeout(this.#timer);
    this.#lookAtMs = atMs;
    this.#timer = setTimer(() => {
      this.#lookAtMs = Infinity;
      this.#wake();
    }, atMs - performance.now());
  }
}
