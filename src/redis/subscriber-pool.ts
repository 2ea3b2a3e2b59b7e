// The connections on which one client subscribes: at each home one for classic channels and one for sharded ones, made when first needed.

import { inOwnContext } from '../runtime/own-context.js';
import type { Connection } from './connection.js';
import { ONLY_HOME, type Homes } from './homes.js';
import { Subscriber, type SubscriberListener } from './subscriber.js';

/** What happens to channels at one home, which is named by its address. */
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
   * The connections by home, one map for each kind of channel. A server counts the sharded channels of a connection apart from the
   * classic ones, and ioredis takes either count's 0 for the end of all subscriptions (https://github.com/redis/ioredis/pull/2196): on a
   * connection that had both, nothing would be heard on one kind any more after the last channel of the other was left.
   */
  readonly #classic = new Map<string, Subscriber>();
  readonly #sharded = new Map<string, Subscriber>();
  /** The ends of connections that are closing already, since nothing will be wanted on them: `close` awaits them, too. */
  readonly #closing = new Set<Promise<void>>();

  constructor(connection: Connection, homes: Homes, listener: PoolListener) {
    this.#connection = connection;
    this.#homes = homes;
    this.#listener = listener;
  }

  /** False: the channel was not asked for, since that home is gone and there is no connection to it any more. */
  subscribe(channel: string, home: string, isSharded: boolean): boolean {
    const subscriber = this.#of(isSharded).get(home) ?? this.#connect(home, isSharded);
    subscriber?.subscribe(channel, isSharded);
    return subscriber !== undefined;
  }

  unsubscribe(channel: string, home: string, isSharded: boolean): void {
    this.#of(isSharded).get(home)?.unsubscribe(channel);
    this.#closeIfLeft(home, isSharded);
  }

  /** Has each connection ask for the channels that are wanted on it and were not asked for. */
  askAgain(): void {
    for (const subscribers of [this.#classic, this.#sharded])
      for (const subscriber of subscribers.values()) subscriber.askAgain();
  }

  /** Closes the connections on which no channel is wanted, or will be. */
  closeLeft(): void {
    for (const isSharded of [false, true])
      for (const home of [...this.#of(isSharded).keys()]) this.#closeIfLeft(home, isSharded);
  }

  /** Resolves when all connections are gone. */
  async close(): Promise<void> {
    const subscribers = [...this.#classic.values(), ...this.#sharded.values()];
    this.#classic.clear();
    this.#sharded.clear();
    await Promise.all([...this.#closing, ...subscribers.map((subscriber) => subscriber.close())]);
  }

  /**
   * Closes a connection on which no channel is wanted, if its home is gone, or is that of the classic channels no more: it would try to
   * connect for ever, and never end its outage.
   */
  #closeIfLeft(home: string, isSharded: boolean): void {
    const subscriber = this.#of(isSharded).get(home);
    const isUsed = isSharded ? this.#homes.has(home) : this.#homes.of(undefined) === home;
    if (!subscriber?.isIdle || isUsed) return;
    this.#of(isSharded).delete(home);
    const closing = subscriber.close();
    this.#closing.add(closing);
    void closing.finally(() => this.#closing.delete(closing));
  }

  #of(isSharded: boolean): Map<string, Subscriber> {
    return isSharded ? this.#sharded : this.#classic;
  }

  #connect(home: string, isSharded: boolean): Subscriber | undefined {
    // The connection serves all callers, so it must not run in the context of the one who needs it first.
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
            this.#closeIfLeft(home, isSharded);
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

/** What a connection is called in errors and outages: no two connections of a client have the same name. */
function roleOf(home: string, isSharded: boolean): string {
  const role = isSharded ? 'sharded subscriber' : 'subscriber';
  return home === ONLY_HOME ? role : `${role} (${home})`;
}
