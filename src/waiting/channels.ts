// The pub/sub channels of a client: each is subscribed once for all its listeners, and kept for a while after the last one has left.

import { UnavailableError } from '../api/errors.js';
import type { Events } from '../api/events.js';
import type { RedisClient } from '../redis/client.js';
import { News } from '../redis/reconnecting.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { Subscriptions } from '../redis/subscriptions.js';

/** How long a channel without listeners stays subscribed, in milliseconds, so that a busy lock does not resubscribe all the time. */
const LINGER_MS = 2_000;

export interface ChannelListener {
  /** The subscription is confirmed, for the first time or again: earlier messages may have been missed. */
  subscribed(): void;
  message(payload: string): void;
  /** A message for the still subscribed channel, after this listener, its last one, has left. */
  late?(payload: string): void;
  /** Whether a message also matters to listeners that join after it; left out: all messages do. */
  concernsAll?(payload: string): boolean;
}

class Channel {
  readonly listeners = new Set<ChannelListener>();
  /** When the server confirmed the subscription, on the monotonic clock; undefined: there is no confirmed subscription. */
  subscribedAtMs: number | undefined;
  /** Whether publishers may not see this client among the channel's subscribers. */
  isDoubted = false;
  /** When the last message that concerns all came, on the monotonic clock, with or without listeners. */
  heardAtMs: number | undefined;
  /** The last listener, once there are none. */
  last: ChannelListener | undefined;
  /** When the last listener left, on the monotonic clock. */
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
  /** Whether the listener may have missed a message since `sinceMs` (on the monotonic clock). */
  mayHaveMissed(sinceMs: number): boolean;
  close(): void;
}

/** The subscription that a listener gets once the channels are closed: no messages. */
const SILENCE: Subscription = { mayHaveMissed: () => false, close: () => undefined };

export class Channels {
  readonly #clock: Clock;
  readonly #events: Events;
  readonly #lookEveryMs: number;
  readonly #channels = new Map<string, Channel>();
  readonly #subscriptions: Subscriptions;
  /** The denied commands that were reported, by kind of channel. */
  readonly #denied = new News();
  #isClosed = false;
  /** One timer for all channels, since each end of a wait may leave a channel idle. */
  #lingerTimer: Timer | undefined;

  /** `lookEveryMs`: the waiters' polling interval, for the error message. */
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

  get size(): number {
    return this.#channels.size;
  }

  subscribe(name: string, isSharded: () => boolean, listener: ChannelListener): Subscription {
    // A Redlock may stay in use after the client of one of its masters is closed.
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
      // Before the subscription is confirmed this is false, since `subscribed()` will be called.
      // (`>=`, not `>`: when a test stops the clock, everything happens in the same instant.)
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

  /** Whether a channel is known to be subscribed, with or without listeners. */
  isSubscribed(name: string): boolean {
    return this.#channels.get(name)?.isSubscribed ?? false;
  }

  /**
   * Publishers may not see this client among the channel's subscribers. If the channel was subscribed at `sinceMs` (on the monotonic
   * clock) or earlier, `isSubscribed` is false from now on, until a new subscription is confirmed.
   */
  doubt(name: string, sinceMs: number): void {
    const channel = this.#channels.get(name);
    if (channel?.isSubscribed && (channel.subscribedAtMs ?? Infinity) <= sinceMs)
      channel.isDoubted = true;
  }

  /** Resolves when the connections for subscriptions are closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#clock.clearTimer(this.#lingerTimer);
    this.#channels.clear();
    await this.#subscriptions.close();
  }

  /** Unsubscribes the channels that have been idle for long enough. Runs rarely, however many listeners come and go. */
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

  /** Reports once per command and kind of channel: a denial usually applies to all channels of a kind. */
  #reportDenied(what: 'SUBSCRIBE' | 'UNSUBSCRIBE', name: string, cause: Error): void {
    const [kind = name] = name.split(':', 1);
    if (!this.#denied.isNews(`${what} ${kind}`)) return;
    const whatFollows =
      kind === 'holdfast_wishes'
        ? 'no lock is kept; permit SUBSCRIBE'
        : `waiters are not woken there, and only poll every ${String(Math.ceil(this.#lookEveryMs))} ms; permit SUBSCRIBE (in a cluster SSUBSCRIBE)`;
    const message =
      what === 'SUBSCRIBE'
        ? `cannot subscribe to channel ${name}: ${cause.message}; ${whatFollows} on ${kind}:*`
        : `cannot unsubscribe from channel ${name}: ${cause.message}; the connection is made anew now and then to get rid of such channels; permit UNSUBSCRIBE (in a cluster SUNSUBSCRIBE)`;
    this.#events.emit('error', () => ({ error: new UnavailableError(message, { cause }) }));
  }
}
