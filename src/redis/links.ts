// Makes the links of one Holdfast to its Redis, and emits what goes wrong with each.

import { UnavailableError } from '../api/errors.js';
import type { Events } from '../api/events.js';
import { inOwnContext } from '../runtime/own-context.js';
import type { Driver, RedisClient } from './driver.js';
import { describe } from './failure.js';
import { Link, type LinkListener, type SubscriptionListener } from './link.js';
import { Refusals } from './refusals.js';

/** How long a subscriber's server that is always late may take to answer. Those who wait for a lock look for themselves meanwhile. */
const LONGEST_SUBSCRIBER_SILENCE_MS = 30_000;

export class Links {
  /** What the server refuses. */
  readonly refusals: Refusals;
  readonly #driver: Driver;
  readonly #silenceLimitMs: number;
  readonly #events: Events;

  /** `silenceLimitMs`: for how long a connection may leave something unanswered before it is dropped and made anew. */
  constructor(driver: Driver, silenceLimitMs: number, events: Events) {
    this.#driver = driver;
    this.#silenceLimitMs = silenceLimitMs;
    this.#events = events;
    this.refusals = new Refusals(events);
  }

  /** A new client of the driver. */
  connect(): RedisClient {
    return this.#driver.connect(this.#silenceLimitMs);
  }

  /** A link for commands. It serves all callers, so it must not run in the context of the one in which it is made. */
  forCommands(role: string, listener: Pick<LinkListener, 'greet' | 'ready'>): Link {
    const explaining = { ...listener, explain: this.refusals.explain };
    return inOwnContext(() => this.#link(this.connect(), role, explaining, this.#silenceLimitMs));
  }

  /** A link for subscriptions by this client, made for one of the homes of channels. */
  forSubscriptions(client: RedisClient, role: string, listener: SubscriptionListener): Link {
    // No call waits for an answer on it: a slow server may take its time, rather than be connected to again and again.
    const longestMs = Math.max(this.#silenceLimitMs, LONGEST_SUBSCRIBER_SILENCE_MS);
    return this.#link(client, role, listener, longestMs);
  }

  #link(
    client: RedisClient,
    role: string,
    listener: Omit<LinkListener, 'outage' | 'failed'>,
    longestSilenceMs: number,
  ): Link {
    const limits = { silenceLimitMs: this.#silenceLimitMs, longestSilenceMs };
    return new Link(client, limits, {
      ...listener,
      outage: (isOn) => {
        this.#events.outage(role, isOn);
      },
      failed: (cause) => {
        const message = `the ${role} connection to Redis (${client.address}) failed: ${describe(cause)}`;
        this.#events.emit('error', () => ({ error: new UnavailableError(message, { cause }) }));
      },
    });
  }
}
