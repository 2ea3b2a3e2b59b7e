// The channels that a client listens to: subscribed once for all who listen, and kept a little while after the last listener
// left.

import { UnavailableError } from '../api/errors.js';
import type { Events } from '../api/events.js';
import type { RedisClient } from '../redis/client.js';
import { News } from '../redis/reconnecting.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { Subscriptions } from '../redis/subscriptions.js';

/** How long a channel stays subscribed when nobody listens, so that a hot lock does not churn. */
const LINGER_MS = 2_000;

export interface ChannelListener {
  /** The subscription stands, for the first time or anew: what was published before may have been missed. */
  subscribed(): void;
  message(payload: string): void;
  /** A message that came when this listener, the last one of the channel, had left, while the channel was still subscribed. */
  late?(payload: string): void;
  /** Whether a message also tells something to whoever comes to listen after it; left out: all messages do. */
  concernsAll?(payload: string): boolean;
}

class Channel {
  readonly listeners = new Set<ChannelListener>();
  /** When the server confirmed the subscription, on the monotonic clock; undefined: it is not known to stand. */
  subscribedAtMs: number | undefined;
  /** Whether those who publish may not count this client among those who listen. */
  isDoubted = false;
  /** When the last message came that concerns all, on the monotonic clock, whether or not somebody listened. */
  heardAtMs: number | undefined;
  /** Who listened last, when nobody does any more. */
  last: ChannelListener | undefined;
  /** Since when nobody listens, on the monotonic clock. */
  idleSinceMs = 0;

  get isSubscribed(): boolean {
    return this.subscribedAtMs !== undefined && !this.isDoubted;
  }

  confirm(atMs: number): void {
    this.subscribedAtMs = atMs;
    this.isDoubted = false;
    for (const listener of this.listeners) listener.subscribed();
  }
}

/** One listener's part in a channel. */
export interface Subscription {
  /** Whether it is known to stand: confirmed, on a connection that is not known to be lost. */
  readonly isSubscribed: boolean;
  /** Whether something may have happened since `sinceMs` (on the monotonic clock) that the listener did not hear. */
  mayHaveMissed(sinceMs: number): boolean;
  close(): void;
}

/** What a listener gets when the channels are closed: it hears nothing. */
const SILENCE: Subscription = {
  isSubscribed: false,
  mayHaveMissed: () => false,
  close: () => undefined,
};

export class Channels {
  readonly #clock: Clock;
  readonly #events: Events;
  readonly #lookEveryMs: number;
  readonly #channels = new Map<string, Channel>();
  readonly #subscriptions: Subscriptions;
  /** Which commands are denied on which kinds of channels. */
  readonly #denied = new News();
  #isClosed = false;
  /** One timer for all channels: each end of a wait may leave a channel idle. */
  #lingerTimer: Timer | undefined;

  /** `lookEveryMs`: how often those who wait look for themselves. */
  constructor(connection: RedisClient, events: Events, lookEveryMs: number) {
    this.#clock = connection.surroundings.clock;
    this.#events = events;
    this.#lookEveryMs = lookEveryMs;
    this.#subscriptions = new Subscriptions(connection, {
      subscribed: (name) => {
        this.#channels.get(name)?.confirm(this.#clock.nowMs());
      },
      lost: (name) => {
        const channel = this.#channels.get(name);
        if (channel) channel.subscribedAtMs = undefined;
      },
      denied: (what, name, error) => {
        this.#reportDenied(what, name, error);
      },
      message: (name, payload) => {
        const channel = this.#channels.get(name);
        if (!channel) return;
        const [listener = channel.last] = channel.listeners;
        if (listener?.concernsAll?.(payload) ?? true) channel.heardAtMs = this.#clock.nowMs();
        if (channel.listeners.size === 0) channel.last?.late?.(payload);
        for (const listener of channel.listeners) listener.message(payload);
      },
    });
  }

  subscribe(name: string, isSharded: () => boolean, listener: ChannelListener): Subscription {
    // A Redlock may go on when the client of one of its masters is closed.
    if (this.#isClosed) return SILENCE;
    let channel = this.#channels.get(name);
    if (!channel) {
      channel = new Channel();
      this.#channels.set(name, channel);
      this.#subscriptions.subscribe(name, isSharded);
    }
    channel.listeners.add(listener);
    const joined = channel;
    return {
      get isSubscribed() {
        return joined.isSubscribed;
      },
      // Before the subscription is confirmed nothing needs to be said here: `subscribed()` will be called.
      // (In the same instant, too: where a test has stopped the time, all that happens does so.)
      mayHaveMissed: (sinceMs) =>
        Math.max(joined.subscribedAtMs ?? -Infinity, joined.heardAtMs ?? -Infinity) >= sinceMs,
      close: () => {
        joined.listeners.delete(listener);
        if (joined.listeners.size > 0 || this.#channels.get(name) !== joined) return;
        joined.last = listener;
        joined.idleSinceMs = this.#clock.nowMs();
        this.#lingerTimer ??= this.#clock.setTimer(this.#dropIdle, LINGER_MS);
      },
    };
  }

  /** Whether a channel is known to be subscribed, also if nobody listens any more. */
  isSubscribed(name: string): boolean {
    return this.#channels.get(name)?.isSubscribed ?? false;
  }

  /**
   * Those who publish on a channel may not have counted this client among those who listen. If the channel has been subscribed since
   * `sinceMs` (on the monotonic clock) or earlier, that does not count as a subscription any more until it is confirmed anew.
   */
  doubt(name: string, sinceMs: number): void {
    const channel = this.#channels.get(name);
    if (channel?.isSubscribed && (channel.subscribedAtMs ?? Infinity) <= sinceMs)
      channel.isDoubted = true;
  }

  /** Resolves when the connections for subscriptions are gone. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#clock.clearTimer(this.#lingerTimer);
    this.#channels.clear();
    await this.#subscriptions.close();
  }

  /** Unsubscribes the channels that have been idle for long enough; runs seldom, however many listeners come and go. */
  readonly #dropIdle = (): void => {
    this.#lingerTimer = undefined;
    for (const [name, channel] of [...this.#channels]) {
      if (channel.listeners.size > 0) continue;
      if (this.#clock.nowMs() - channel.idleSinceMs >= LINGER_MS) {
        this.#channels.delete(name);
        this.#subscriptions.unsubscribe(name);
      } else this.#lingerTimer ??= this.#clock.setTimer(this.#dropIdle, LINGER_MS / 4);
    }
  };

  /** Reported once for each command and kind of channel: what is denied on one channel mostly is on all of its kind. */
  #reportDenied(what: 'SUBSCRIBE' | 'UNSUBSCRIBE', name: string, cause: Error): void {
    const [kind = name] = name.split(':', 1);
    if (!this.#denied.isNews(`${what} ${kind}`)) return;
    const message =
      what === 'SUBSCRIBE'
        ? `cannot subscribe to channel ${name}: ${cause.message}; who waits there is not woken, and only looks every ${String(Math.ceil(this.#lookEveryMs))} ms; permit SUBSCRIBE (in a cluster SSUBSCRIBE) on ${kind}:*`
        : `cannot unsubscribe from channel ${name}: ${cause.message}; the connection is made anew now and then to get rid of such channels; permit UNSUBSCRIBE (in a cluster SUNSUBSCRIBE)`;
    this.#events.emit('error', () => ({ error: new UnavailableError(message, { cause }) }));
  }
}
