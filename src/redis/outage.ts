// The outages of one connection, as users hear of them: that one begins, each thing that goes wrong in it once, and that it is over.

import { UnavailableError } from '../api/errors.js';
import type { Events } from '../api/events.js';
import type { Clock } from '../runtime/clock.js';
import { describe } from './failure.js';

/** How many things are told in one outage at most. */
const MOST_SAID = 20;

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

  end(): void {
    this.#said.clear();
  }
}

export class Outage {
  readonly #events: Events;
  readonly #clock: Clock;
  readonly #role: string;
  readonly #name: string;
  readonly #news = new News();
  #isOn = false;
  /** When its first error was told; undefined: none was. */
  #toldAtMs: number | undefined;

  /** `role`: what the connection is for; `home`: tells it from others of the client that are for the same. */
  constructor(events: Events, clock: Clock, role: string, home: string) {
    this.#events = events;
    this.#clock = clock;
    this.#role = role;
    this.#name = `${role} ${home}`;
  }

  /** There is no connection. What goes wrong is told by `failed`. */
  begin(): void {
    this.#isOn = true;
    this.#events.outage(this.#name, true);
  }

  /** Something went wrong; also while there is a connection. `address`: where, for people. */
  failed(cause: Error, address: string): void {
    if (!this.#news.isNews(describe(cause))) return;
    if (this.#isOn) this.#toldAtMs ??= this.#clock.nowMs();
    const message = `the ${this.#role} connection to Redis (${address}) failed: ${describe(cause)}`;
    this.#events.emit('error', () => ({ error: new UnavailableError(message, { cause }) }));
  }

  /** There is a connection again. */
  over(address: string): void {
    const toldAtMs = this.#toldAtMs;
    this.close();
    if (toldAtMs === undefined) return;
    const lastedMs = Math.round(this.#clock.nowMs() - toldAtMs);
    const connection = this.#role;
    this.#events.emit('recovered', () => ({ connection, address, lastedMs }));
  }

  /** No connection is wanted any more. */
  close(): void {
    this.#isOn = false;
    this.#toldAtMs = undefined;
    this.#news.end();
    this.#events.outage(this.#name, false);
  }
}
