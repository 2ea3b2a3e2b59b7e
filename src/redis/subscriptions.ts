// All subscriptions of one client. `#reconcile` compares the wanted channels with the subscriptions that stand, and asks for the rest:
// after every event, and now and then. Each channel has a node, the server that delivers its messages: in a cluster the master of its slot,
// or for classic channels any master.

import type { Timer } from '../runtime/clock.js';
import type { RedisClient } from './client.js';
import { failureKind } from './failure.js';
import { hashTag, slotOf } from './keys.js';
import { ONLY_NODE, type Heard } from './port.js';
import { Subscriber } from './subscriber.js';

/** How soon a subscription is asked for again; each time twice as late, up to the longest. */
const RETRY_MS = 200;
const LONGEST_RETRY_MS = 2_000;
/** How soon a channel that the server does not permit is asked for again: it may have been permitted meanwhile. */
const DENIED_RETRY_MS = 30_000;

export interface SubscriptionsListener {
  /** The subscription stands, for the first time or again: messages before may have been missed. */
  subscribed(channel: string): void;
  /** The subscription does not stand any more. It is made anew; then `subscribed` is called again. */
  lost(channel: string): void;
  /** The server does not permit this command on the channel. */
  denied(what: 'SUBSCRIBE' | 'UNSUBSCRIBE', channel: string, error: Error): void;
  /** A message on a channel, also on one that is not wanted any more. */
  readonly message: Heard['message'];
}

/** A channel that is wanted. */
interface Route {
  readonly channel: string;
  /** Whether the channel is sharded; every server delivers a classic one. It changes when a server turns out to be a cluster's node. */
  readonly isSharded: () => boolean;
  /** Where its subscription stands. It ends there only when it stands at the new node, so that no message is missed in between. */
  stands?: Subscriber | undefined;
  /** Where it was asked for, without an answer so far. */
  asked?: Subscriber | undefined;
  /** The node that has refused it, and until when that node is not asked again. Another node is asked at once. */
  refused?: { readonly node: string; readonly untilMs: number } | undefined;
}

export class Subscriptions {
  readonly #client: RedisClient;
  readonly #listener: SubscriptionsListener;
  readonly #routes = new Map<string, Route>();
  /** By node; a server counts the sharded channels of a connection apart, so each kind of channel has its own connection. */
  readonly #subscribers = new Map<string, Subscriber>();
  /** The node of all classic channels in a cluster. */
  #classicNode: string | undefined;
  #retryTimer: Timer | undefined;
  #retryMs = RETRY_MS;
  #movedTimer: Timer | undefined;

  constructor(client: RedisClient, listener: SubscriptionsListener) {
    this.#client = client;
    this.#listener = listener;
    client.listen({
      ready: (isAnother) => {
        if (isAnother)
          for (const subscriber of this.#subscribers.values()) subscriber.commandsMoved();
      },
      nodesChanged: () => {
        this.#reconcile();
      },
    });
  }

  subscribe(channel: string, isSharded: () => boolean): void {
    const route: Route = { channel, isSharded };
    this.#routes.set(channel, route);
    this.#reconcile([route]);
  }

  unsubscribe(channel: string): void {
    const route = this.#routes.get(channel);
    if (!route) return;
    this.#routes.delete(channel);
    for (const subscriber of new Set([route.stands, route.asked]))
      if (subscriber) this.#leave(subscriber, channel);
    this.#closeUnused();
  }

  /** Resolves when all sockets that the client closes are gone. */
  async close(): Promise<void> {
    const { clock, closing } = this.#client.surroundings;
    clock.clearTimer(this.#retryTimer);
    clock.clearTimer(this.#movedTimer);
    this.#routes.clear();
    for (const subscriber of this.#subscribers.values()) subscriber.close();
    this.#subscribers.clear();
    await Promise.all(closing);
  }

  /** Asks for each of these channels at its node, unless it stands there, was asked for there, or was refused there a moment ago. */
  #reconcile(routes: Iterable<Route> = this.#routes.values()): void {
    const nowMs = this.#client.surroundings.clock.nowMs();
    for (const route of routes) {
      const { channel, stands, asked, refused } = route;
      const isSharded = route.isSharded();
      const node = this.#nodeFor(isSharded ? slotOf(hashTag(channel)) : undefined);
      const isThere = (subscriber: Subscriber | undefined): boolean =>
        subscriber?.node === node && subscriber?.isSharded === isSharded;
      if (isThere(stands)) continue;
      this.#retryLater();
      if (node === undefined || isThere(asked)) continue;
      if (refused?.node === node && refused.untilMs > nowMs) continue;
      const subscriber = this.#subscriberAt(node, isSharded);
      if (!subscriber.wire) continue;
      if (asked && asked !== stands) this.#leave(asked, channel);
      this.#ask(subscriber, route);
    }
    this.#closeUnused();
  }

  #ask(subscriber: Subscriber, route: Route): void {
    const { wire, isSharded } = subscriber;
    route.asked = subscriber;
    subscriber.watch();
    wire?.subscribe([route.channel], isSharded, (refusal) => {
      if (this.#routes.get(route.channel) !== route || route.asked !== subscriber) return;
      route.asked = undefined;
      if (refusal) this.#refused(route, subscriber, refusal);
      else this.#standsAt(route, subscriber);
    });
  }

  #standsAt(route: Route, subscriber: Subscriber): void {
    const former = route.stands;
    route.stands = subscriber;
    route.refused = undefined;
    this.#retryMs = RETRY_MS;
    if (former && former !== subscriber) this.#leave(former, route.channel);
    this.#listener.subscribed(route.channel);
    this.#closeUnused();
  }

  #refused(route: Route, subscriber: Subscriber, error: Error): void {
    const { cluster, surroundings } = this.#client;
    const node = subscriber.node;
    const isDenied = failureKind(error) !== 'transient';
    const retryMs = isDenied ? DENIED_RETRY_MS : this.#retryMs;
    route.refused = { node, untilMs: surroundings.clock.nowMs() + retryMs };
    if (route.stands === subscriber) this.#lost(route);
    if (isDenied) this.#listener.denied('SUBSCRIBE', route.channel, error);
    else {
      cluster?.learnFrom(error, node); // after a MOVED it makes us reconcile
      cluster?.refresh();
    }
    this.#retryLater();
  }

  #lost(route: Route): void {
    route.stands = undefined;
    this.#listener.lost(route.channel);
  }

  #leave(subscriber: Subscriber, channel: string): void {
    if (!this.#isUsed(subscriber)) subscriber.rest();
    subscriber.wire?.unsubscribe(channel, subscriber.isSharded, (error) => {
      if (failureKind(error) !== 'denied') return;
      this.#listener.denied('UNSUBSCRIBE', channel, error);
      // Only a new connection gets rid of it; but not while other channels use this one.
      if (!this.#isUsed(subscriber)) subscriber.wire?.end();
    });
  }

  #subscriberAt(node: string, isSharded: boolean): Subscriber {
    const key = isSharded ? `sharded ${node}` : node;
    const known = this.#subscribers.get(key);
    if (known) return known;
    const subscriber = new Subscriber(this.#client, node, isSharded, {
      ready: () => {
        // Another server may be there now, which permits the channels that were denied before.
        for (const route of this.#routes.values())
          if (route.refused?.node === node) route.refused = undefined;
        this.#reconcile();
      },
      ended: () => {
        this.#ended(subscriber);
      },
      message: this.#listener.message,
      // A moment later, when everything that came in one piece is read: a slot may take several channels with it.
      moved: () => {
        this.#movedTimer ??= this.#client.surroundings.clock.setTimer(this.#moved, 1);
      },
    });
    this.#subscribers.set(key, subscriber);
    return subscriber;
  }

  /**
   * The server has unsubscribed sharded channels, and it is not known which: all are asked for again, which does no harm to those that
   * stand.
   */
  readonly #moved = (): void => {
    this.#movedTimer = undefined;
    this.#client.cluster?.refresh();
    for (const route of this.#routes.values()) {
      const { stands, asked } = route;
      if (stands?.isSharded && stands.wire && !asked) this.#ask(stands, route);
    }
  };

  #ended(subscriber: Subscriber): void {
    if (subscriber.node === this.#classicNode) this.#classicNode = undefined;
    this.#client.cluster?.refresh();
    for (const route of this.#routes.values()) {
      if (route.asked === subscriber) route.asked = undefined;
      if (route.stands === subscriber) this.#lost(route);
    }
    this.#reconcile();
  }

  /** The node of a channel; undefined: not known at present. */
  #nodeFor(slot: number | undefined): string | undefined {
    const { cluster, isCluster, surroundings } = this.#client;
    if (!isCluster) return ONLY_NODE;
    if (slot !== undefined) return cluster?.masterOf(slot);
    const masters = cluster?.masters ?? [];
    if (this.#classicNode === undefined || !masters.includes(this.#classicNode)) {
      // Not the node whose connection has just ended, if there is another.
      const open = masters.filter((node) => !this.#subscribers.get(node)?.isFailing);
      const from = open.length > 0 ? open : masters;
      this.#classicNode =
        from[Math.floor(surroundings.random() * from.length)] ?? this.#classicNode;
    }
    return this.#classicNode;
  }

  #isUsed(subscriber: Subscriber): boolean {
    for (const { stands, asked } of this.#routes.values())
      if (stands === subscriber || asked === subscriber) return true;
    return false;
  }

  /** Closes the connections whose node is gone: they would try to connect forever, and never end their outage. */
  #closeUnused(): void {
    const { cluster } = this.#client;
    if (!cluster) return;
    for (const [key, subscriber] of this.#subscribers) {
      const { node, isSharded } = subscriber;
      const isStill = isSharded ? cluster.masters.includes(node) : node === this.#classicNode;
      if (isStill || this.#isUsed(subscriber)) continue;
      this.#subscribers.delete(key);
      subscriber.close();
    }
  }

  #retryLater(): void {
    this.#retryTimer ??= this.#client.surroundings.clock.setTimer(() => {
      this.#retryTimer = undefined;
      this.#retryMs = Math.min(2 * this.#retryMs, LONGEST_RETRY_MS);
      this.#client.cluster?.refresh();
      this.#reconcile();
    }, this.#retryMs);
  }
}
