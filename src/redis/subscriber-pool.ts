// The connections for subscriptions of one client: one for each server that tells of channels, and for each kind of channel there.

import { inOwnContext } from '../runtime/own-context.js';
import type { Connection } from './connection.js';
import type { Homes } from './homes.js';
import { Subscriber, type SubscriberListener } from './subscriber.js';

/** What happens to channels at one of the servers, which is known by its address. */
export interface PoolListener extends Pick<SubscriberListener, 'stuck' | 'message'> {
  subscribed(channel: string, home: string): void;
  lost(channel: string, home: string): void;
  refused(channel: string, home: string, error: Error | undefined): void;
  ready(home: string, isSharded: boolean): void;
}

export class SubscriberPool {
  readonly #connection: Connection;
  readonly #homes: Homes;
  readonly #listener: PoolListener;
  /**
   * By home and kind of channel. A server counts the sharded channels of a connection apart from the classic ones, and ioredis takes
   * either count's 0 for the end of all subscriptions (https://github.com/redis/ioredis/pull/2196): on a connection that had both,
   * whoever left the last channel of one kind would hear nothing on the other any more.
   */
  readonly #classic = new Map<string, Subscriber>();
  readonly #sharded = new Map<string, Subscriber>();
  /** What closes already, since its home is gone. */
  readonly #closing = new Set<Promise<void>>();

  constructor(connection: Connection, homes: Homes, listener: PoolListener) {
    this.#connection = connection;
    this.#homes = homes;
    this.#listener = listener;
  }

  /** False: that home is gone. */
  subscribe(channel: string, home: string, isSharded: boolean): boolean {
    const subscriber = this.#of(isSharded).get(home) ?? this.#connect(home, isSharded);
    subscriber?.subscribe(channel, isSharded);
    return subscriber !== undefined;
  }

  unsubscribe(channel: string, home: string, isSharded: boolean): void {
    this.#of(isSharded).get(home)?.unsubscribe(channel);
    this.#closeIfGone(home, isSharded);
  }

  /** All ask for what is wanted and was not asked for. */
  askAgain(): void {
    for (const subscribers of [this.#classic, this.#sharded])
      for (const subscriber of subscribers.values()) subscriber.askAgain();
  }

  /** Closes those that have nothing to listen to, at homes that are gone. */
  closeGone(): void {
    for (const isSharded of [false, true])
      for (const home of [...this.#of(isSharded).keys()]) this.#closeIfGone(home, isSharded);
  }

  /** Resolves when all connections are gone. */
  async close(): Promise<void> {
    const subscribers = [...this.#classic.values(), ...this.#sharded.values()];
    this.#classic.clear();
    this.#sharded.clear();
    await Promise.all([...this.#closing, ...subscribers.map((subscriber) => subscriber.close())]);
  }

  /** One that has nothing to listen to any more would go on looking for its home for ever, and its outage would never end. */
  #closeIfGone(home: string, isSharded: boolean): void {
    const subscriber = this.#of(isSharded).get(home);
    if (!subscriber?.isIdle || this.#homes.has(home)) return;
    this.#of(isSharded).delete(home);
    const closing = subscriber.close();
    this.#closing.add(closing);
    void closing.finally(() => this.#closing.delete(closing));
  }

  #of(isSharded: boolean): Map<string, Subscriber> {
    return isSharded ? this.#sharded : this.#classic;
  }

  #connect(home: string, isSharded: boolean): Subscriber | undefined {
    // Whoever happens to come first must not lend its context to all that the connection will ever say.
    return inOwnContext(() => {
      const client = this.#homes.connect(home);
      if (!client) return undefined;
      const subscriber = new Subscriber(
        (listener) => this.#connection.linkSubscriber(client, roleOf(home, isSharded), listener),
        this.#connection.silenceLimitMs,
        {
          subscribed: (channel) => {
            this.#listener.subscribed(channel, home);
          },
          lost: (channel) => {
            this.#listener.lost(channel, home);
          },
          refused: (channel, error) => {
            this.#listener.refused(channel, home, error);
            this.#closeIfGone(home, isSharded);
          },
          ready: () => {
            this.#listener.ready(home, isSharded);
          },
          stuck: (channel, error) => {
            this.#listener.stuck(channel, error);
          },
          message: (channel, payload) => {
            this.#listener.message(channel, payload);
          },
        },
      );
      this.#of(isSharded).set(home, subscriber);
      return subscriber;
    });
  }
}

/** What the connection is called where something is told of it: no two of a client alike. */
function roleOf(home: string, isSharded: boolean): string {
  const role = isSharded ? 'sharded subscriber' : 'subscriber';
  return home === '' ? role : `${role} (${home})`;
}
