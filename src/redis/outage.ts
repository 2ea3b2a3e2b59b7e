// What users hear of trouble with one Redis, each thing once: the outages of a connection, and what a server goes on refusing.

import { UnavailableError } from '../api/errors.js';
import type { Events } from '../api/events.js';
import type { Clock } from '../runtime/clock.js';
import { describe, failureKind, isPassing } from './failure.js';

/** How many things are told in one outage at most. */
const MOST_SAID = 20;
/** A server that refuses for no longer is about to be well again: it loads its data, or takes over from another one. */
const LASTING_MS = 2_000;
/** Who waits asks again within a second or so. If nobody was refused for so long, it is over. */
const OVER_MS = 5_000;

/** What was told already. Each thing is told once, since a server that is down fails every attempt in the same words. */
export class News {
  readonly #said = new Set<string>();

  /** Whether a message was not told before. Numbers do not make it new: ports, milliseconds, how many leases. */
  isNews(message: string): boolean {
    const words = message.replace(/\d+(\.\d+)?/g, '#');
    if (this.#said.has(words) || this.#said.size >= MOST_SAID) return false;
    this.#said.add(words);
    return true;
  }
}

/** The outages of one connection. */
export class Outage {
  readonly #events: Events;
  readonly #clock: Clock;
  readonly #role: string;
  #news = new News();
  #isOn = false;
  /** When its first error was told; undefined: none was. */
  #toldAtMs: number | undefined;

  constructor(events: Events, clock: Clock, role: string) {
    this.#events = events;
    this.#clock = clock;
    this.#role = role;
  }

  /** There is no connection. */
  begin(): void {
    this.#isOn = true;
    this.#events.outage(this, true);
  }

  /** Something went wrong; also while there is a connection. `address`: where, for people. */
  failed(cause: Error, address: string): void {
    if (!this.#news.isNews(describe(cause))) return;
    if (this.#isOn) this.#toldAtMs ??= this.#clock.nowMs();
    tell(this.#events, `the ${this.#role} connection to Redis (${address}) failed`, cause);
  }

  /** There is a connection again. */
  over(address: string): void {
    const toldAtMs = this.#toldAtMs;
    this.close();
    if (toldAtMs === undefined) return;
    const lastedMs = Math.round(this.#clock.nowMs() - toldAtMs);
    this.#events.emit('recovered', () => ({ connection: this.#role, address, lastedMs }));
  }

  /** No connection is wanted any more. */
  close(): void {
    this.#isOn = false;
    this.#toldAtMs = undefined;
    this.#news = new News();
    this.#events.outage(this, false);
  }
}

/** What a server that is up goes on refusing, while callers wait for it. */
export class Refusals {
  readonly #events: Events;
  readonly #clock: Clock;
  readonly #place: () => string;
  #news = new News();
  /** When the first of the refusals that go on was heard of, and when the last. */
  #sinceMs = -Infinity;
  #heardMs = -Infinity;

  constructor(events: Events, clock: Clock, place: () => string) {
    this.#events = events;
    this.#clock = clock;
    this.#place = place;
  }

  /** The call of somebody who waits has failed, and will be sent again: tells that where the server goes on refusing. */
  heard(error: unknown): void {
    if (!(error instanceof Error) || failureKind(error) !== 'transient' || isPassing(error)) return;
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#heardMs > OVER_MS) {
      this.#sinceMs = nowMs;
      this.#news = new News();
    }
    this.#heardMs = nowMs;
    if (nowMs - this.#sinceMs < LASTING_MS || !this.#news.isNews(describe(error))) return;
    tell(this.#events, `Redis (${this.#place()}) goes on refusing what callers wait for`, error);
  }
}

function tell(events: Events, what: string, cause: Error): void {
  const message = `${what}: ${describe(cause)}`;
  events.emit('error', () => ({ error: new UnavailableError(message, { cause }) }));
}
