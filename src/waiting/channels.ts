// The channels that a client listens to: subscribed once for all who listen, again after every reconnect,
// and kept a little while after the last listener left.

import type { Events } from '../events.js';
import type { Connection } from '../redis/connection.js';
import type { RedisClient } from '../redis/clients.js';
import { failureKind } from '../redis/failure.js';
import { UnavailableError } from '../errors.js';
import type { Link } from '../redis/link.js';

/** How long a channel stays subscribed when nobody listens, so that a hot lock does not churn. */
const LINGER_MS = 2_000;

/** How soon a subscription that failed is tried again. */
const RETRY_MS = 200;

export interface ChannelListener {
  /** The subscription stands, for the first time or anew: what was published before may have been missed. */
  subscribed(): void;
  message(payload: string): void;
  /** One that came after the last listener had gone, while the subscription still stood. */
  late?(payload: string): void;
}

class Channel {
  readonly name: string;
  readonly isSharded: boolean;
  readonly listeners = new Set<ChannelListener>();
  /** When the server confirmed the subscription, on the monotonic clock. */
  subscribedAtMs: number | undefined;
  /** When the last message came, on the monotonic clock, whether or not somebody listened. */
  heardAtMs: number | undefined;
  /** Who listened last, when nobody does any more. */
  last: ChannelListener | undefined;
  /** Since when nobody listens, on the monotonic clock. */
  idleSinceMs = 0;

  constructor(name: string, isSharded: boolean) {
    this.name = name;
    this.isSharded = isSharded;
  }

  confirm(): void {
    this.subscribedAtMs = performance.now();
    for (const listener of this.listeners) listener.subscribed();
  }
}

/** One listener's part in a channel. */
export interface Subscription {
  /** Whether it is known to stand: confirmed, on a connection that is not known to be lost. */
  readonly isUp: boolean;
  /** Whether something may have happened since then (on the monotonic clock) that the listener did not hear. */
  mayHaveMissed(sinceMs: number): boolean;
  close(): void;
}

/** Of channels that are closed. */
const SILENCE: Subscription = {
  isUp: false,
  mayHaveMissed: () => false,
  close: () => undefined,
};

export class Channels {
  readonly #connection: Connection;
  readonly #events: Events;
  readonly #channels = new Map<string, Channel>();
  #link: Link | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** One for all: each end of a wait may leave a channel idle. */
  #lingerTimer: NodeJS.Timeout | undefined;

  constructor(connection: Connection, events: Events) {
    this.#connection = connection;
    this.#events = events;
  }

  subscribe(name: string, isSharded: boolean, listener: ChannelListener): Subscription {
    // A Redlock may outlive the client of one of its masters.
    if (this.#isClosed) return SILENCE;
    let channel = this.#channels.get(name);
    if (!channel) {
      channel = new Channel(name, isSharded);
      this.#channels.set(name, channel);
      void this.#send([channel]);
    }
    channel.listeners.add(listener);
    const joined = channel;
    return {
      get isUp() {
        return joined.subscribedAtMs !== undefined;
      },
      // Until it is confirmed nothing needs to be told: the confirmation comes.
      mayHaveMissed: (sinceMs) =>
        Math.max(joined.subscribedAtMs ?? 0, joined.heardAtMs ?? 0) > sinceMs,
      close: () => {
        joined.listeners.delete(listener);
        if (joined.listeners.size > 0 || this.#channels.get(name) !== joined) return;
        joined.last = listener;
        joined.idleSinceMs = performance.now();
        this.#lingerTimer ??= setTimeout(this.#dropIdle, LINGER_MS);
      },
    };
  }

  /** Whether a channel is subscribed, also if nobody listens any more. */
  isUp(name: string): boolean {
    return this.#channels.get(name)?.subscribedAtMs !== undefined;
  }

  /** Forgets everything; the connection goes with the client. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#lingerTimer);
    this.#channels.clear();
  }

  #open(): Link {
    const down = (): void => {
      for (const channel of this.#channels.values()) channel.subscribedAtMs = undefined;
    };
    const subscribeAnew = (): void => {
      down();
      void this.#send([...this.#channels.values()]);
    };
    const link = this.#connection.openSubscriber(subscribeAnew);
    link.client.on('close', down);
    link.client.on('subscribersReady', subscribeAnew); // a cluster's slots have moved
    const hear = (name: string, payload: string): void => {
      const channel = this.#channels.get(name);
      if (!channel) return;
      channel.heardAtMs = performance.now();
      if (channel.listeners.size === 0) channel.last?.late?.(payload);
      for (const listener of channel.listeners) listener.message(payload);
    };
    link.client.on('message', hear);
    link.client.on('smessage', hear);
    return link;
  }

  /** Subscribes; until the link is ready there is nothing to do, since then all are subscribed. */
  async #send(channels: readonly Channel[]): Promise<void> {
    this.#link ??= this.#open();
    if (!this.#link.isReady) return;
    const sharded = channels.filter((channel) => channel.isSharded);
    const classic = channels.filter((channel) => !channel.isSharded);
    await Promise.all([
      ...(classic.length > 0
        ? [this.#ask(classic, (client) => client.subscribe(...names(classic)))]
        : []),
      // Each channel has a slot of its own.
      ...sharded.map((channel) =>
        this.#ask([channel], (client) => client.ssubscribe(channel.name)),
      ),
    ]);
  }

  async #ask(
    channels: readonly Channel[],
    command: (client: RedisClient) => Promise<unknown>,
  ): Promise<void> {
    try {
      await this.#link?.ask(command, () => undefined);
    } catch (error) {
      const kind = failureKind(error);
      if (kind === 'unanswered' || kind === 'unsent' || kind === 'transient') {
        this.#retrySoon();
        return;
      }
      this.#events.tell('error', () => ({
        error: new UnavailableError(
          `cannot subscribe to ${names(channels).join(', ')}: ${String(error)}; those who wait now wake up only when the holder's lease ends`,
          { cause: error },
        ),
      }));
      return;
    }
    for (const channel of channels)
      if (this.#channels.get(channel.name) === channel) channel.confirm();
  }

  /** A new connection subscribes to all; but in a cluster one node may fail while the connection as a whole stands. */
  #retrySoon(): void {
    if (this.#channels.size === 0) return;
    this.#retryTimer ??= setTimeout(() => {
      this.#retryTimer = undefined;
      void this.#send(
        [...this.#channels.values()].filter(({ subscribedAtMs }) => subscribedAtMs === undefined),
      );
    }, RETRY_MS);
  }

  /** Looks seldom, however many come and go. */
  readonly #dropIdle = (): void => {
    this.#lingerTimer = undefined;
    for (const channel of [...this.#channels.values()]) {
      if (channel.listeners.size > 0) continue;
      if (performance.now() - channel.idleSinceMs >= LINGER_MS) this.#drop(channel);
      else this.#lingerTimer ??= setTimeout(this.#dropIdle, LINGER_MS / 4);
    }
  };

  #drop(channel: Channel): void {
    this.#channels.delete(channel.name);
    if (!this.#link?.isReady) return;
    this.#link
      .ask(
        (client) =>
          channel.isSharded ? client.sunsubscribe(channel.name) : client.unsubscribe(channel.name),
        () => undefined,
      )
      .catch(() => undefined); // a lost connection has no subscriptions
  }
}

function names(channels: readonly Channel[]): string[] {
  return channels.map((channel) => channel.name);
}
