// All subscriptions of one client. `#reconcile` compares what is wanted with what stands where, and asks for the rest: after every event, and now
// and then. Each channel stands at its home, the server that delivers its messages: in a cluster the master of its slot, or for classic channels any.

import type { Timer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';
import type { RedisClient } from './client.js';
import { failureKind } from './failure.js';
import { hashTag } from './keys.js';
import { addressIn } from './port.js';
import { slotOf } from './slots.js';
import { Subscriber, type Home } from './subscriber.js';

/** How soon what does not stand is asked for again; each time twice as late, up to the longest. */
const RETRY_MS = 200;
const LONGEST_RETRY_MS = 2_000;
/** How soon a channel that the server does not permit is asked for again: somebody may have permitted it meanwhile. */
const DENIED_RETRY_MS = 30_000;
/** How many channels a connection may keep that nobody wants, but that the server does not permit to unsubscribe. */
const MOST_STRAYS = 1_000;
/** The name of the home where there is only one: no cluster. */
const ONLY_HOME = '';

export interface SubscriptionsListener {
  /** The subscription stands, for the first time or anew: what was published before may have been missed. */
  subscribed(channel: string): void;
  /** The subscription does not stand any more. It is made anew, and `subscribed` tells when it stands again. */
  lost(channel: string): void;
  /** The server does not permit this command on the channel. */
  denied(what: 'SUBSCRIBE' | 'UNSUBSCRIBE', channel: string, error: Error): void;
  message(channel: string, payload: string): void;
}

/** A channel that is wanted. */
interface Route {
  readonly channel: string;
  /** The slot of a sharded channel; undefined: it is a classic one, which every server delivers. */
  readonly slot: number | undefined;
  /** Where its subscription stands. It is left there only when it stands at the new home, so that no message is missed in between. */
  stands: Subscriber | undefined;
  /** Where it was asked for, and has not been answered. */
  asked: Subscriber | undefined;
  /** The home that has refused it, and until when it is not asked there again. Another home is asked at once. */
  refused: { readonly home: string; readonly untilMs: number } | undefined;
}

export class Subscriptions {
  readonly #client: RedisClient;
  readonly #listener: SubscriptionsListener;
  readonly #routes = new Map<string, Route>();
  /** By home; a server counts the sharded channels of a connection apart, so each kind has a connection of its own. */
  readonly #classic = new Map<string, Subscriber>();
  readonly #sharded = new Map<string, Subscriber>();
  /** The home of all classic channels in a cluster. */
  #classicHome: string | undefined;
  #retryTimer: Timer | undefined;
  #retryMs = RETRY_MS;
  #movedTimer: Timer | undefined;
  #isClosed = false;

  constructor(client: RedisClient, listener: SubscriptionsListener) {
    this.#client = client;
    this.#listener = listener;
    client.onTopology(() => {
      this.#reconcile();
    });
    client.onReady((isAnother) => {
      if (isAnother) for (const subscriber of this.#all()) subscriber.commandsMoved();
    });
  }

  subscribe(channel: string, isSharded: boolean): void {
    const slot = isSharded ? slotOf(hashTag(channel)) : undefined;
    const route: Route = {
      channel,
      slot,
      stands: undefined,
      asked: undefined,
      refused: undefined,
    };
    this.#routes.set(channel, route);
    this.#see([route]);
  }

  unsubscribe(channel: string): void {
    const route = this.#routes.get(channel);
    if (!route) return;
    this.#routes.delete(channel);
    for (const subscriber of new Set([route.stands, route.asked]))
      if (subscriber) this.#leave(subscriber, channel);
    this.#closeUnused();
  }

  /** Resolves when all sockets of the client are gone that were to be closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const { clock, closing } = this.#client.surroundings;
    clock.clearTimer(this.#retryTimer);
    clock.clearTimer(this.#movedTimer);
    this.#routes.clear();
    for (const subscriber of this.#all()) subscriber.close();
    this.#classic.clear();
    this.#sharded.clear();
    await Promise.all(closing);
  }

  #reconcile(): void {
    if (this.#isClosed) return;
    this.#see([...this.#routes.values()]);
    this.#closeUnused();
  }

  /** Asks for each of these at its home, unless it stands there, was asked for there, or was refused there a moment ago. */
  #see(routes: readonly Route[]): void {
    const nowMs = this.#client.surroundings.clock.nowMs();
    const classic: Route[] = [];
    let isMissing = false;
    for (const route of routes) {
      const home = this.#homeOf(route);
      if (home !== undefined && route.stands?.home.name === home) continue;
      isMissing = true;
      if (home === undefined || route.asked?.home.name === home) continue;
      if (route.refused?.home === home && route.refused.untilMs > nowMs) continue;
      const subscriber = this.#subscriberAt(home, route.slot !== undefined);
      if (!subscriber.wire) continue;
      if (route.asked && route.asked !== route.stands) this.#leave(route.asked, route.channel);
      route.asked = subscriber;
      if (route.slot === undefined) classic.push(route);
      else this.#ask(subscriber, [route]);
    }
    const at = classic[0]?.asked;
    if (at) this.#ask(at, classic);
    if (isMissing) this.#retryLater();
  }

  #ask(subscriber: Subscriber, routes: readonly Route[]): void {
    subscriber.watch();
    const channels = routes.map(({ channel }) => channel);
    subscriber.wire?.subscribe(channels, subscriber.home.isSharded, (refusal) => {
      for (const route of routes) {
        if (this.#routes.get(route.channel) !== route || route.asked !== subscriber) continue;
        const isDenied = refusal !== undefined && failureKind(refusal) !== 'transient';
        // A SUBSCRIBE for several is refused if one of them is denied: each alone.
        if (isDenied && routes.length > 1) this.#ask(subscriber, [route]);
        else if (refusal) this.#refused(route, subscriber, refusal, isDenied);
        else this.#standsAt(route, subscriber);
      }
    });
  }

  #standsAt(route: Route, subscriber: Subscriber): void {
    const former = route.stands;
    route.stands = subscriber;
    route.asked = undefined;
    route.refused = undefined;
    this.#retryMs = RETRY_MS;
    if (former && former !== subscriber) this.#leave(former, route.channel);
    this.#listener.subscribed(route.channel);
    this.#closeUnused();
  }

  #refused(route: Route, subscriber: Subscriber, error: Error, isDenied: boolean): void {
    const stoodThere = route.stands === subscriber;
    route.asked = undefined;
    if (stoodThere) route.stands = undefined;
    const retryMs = isDenied ? DENIED_RETRY_MS : this.#retryMs;
    const untilMs = this.#client.surroundings.clock.nowMs() + retryMs;
    route.refused = { home: subscriber.home.name, untilMs };
    if (stoodThere) this.#listener.lost(route.channel);
    if (isDenied) this.#listener.denied('SUBSCRIBE', route.channel, error);
    else {
      this.#client.cluster?.learnFrom(error, subscriber.home.name); // of a MOVED: it has us reconcile
      this.#client.cluster?.refresh();
    }
    this.#retryLater();
  }

  #leave(subscriber: Subscriber, channel: string): void {
    const isUsed = this.#isUsed(subscriber);
    if (!isUsed) subscriber.rest();
    subscriber.wire?.unsubscribe(channel, subscriber.home.isSharded, (error) => {
      if (failureKind(error) !== 'denied') return;
      this.#listener.denied('UNSUBSCRIBE', channel, error);
      // Only a new connection gets rid of it: worth it when no channel is wanted there, or when strays are too many.
      if (++subscriber.strayCount > MOST_STRAYS || !this.#isUsed(subscriber))
        subscriber.reconnect();
    });
  }

  #subscriberAt(home: string, isSharded: boolean): Subscriber {
    const known = (isSharded ? this.#sharded : this.#classic).get(home);
    if (known) return known;
    const client = this.#client;
    const here: Home =
      home === ONLY_HOME
        ? {
            name: home,
            isSharded,
            address: () => client.address,
            commandsAt: () => (client.isReady ? client.server.id : undefined),
          }
        : {
            name: home,
            isSharded,
            address: () => (client.cluster?.masters.includes(home) ? addressIn(home) : undefined),
          };
    const role = isSharded ? 'sharded subscriber' : 'subscriber';
    const subscriber = inOwnContext(
      () =>
        new Subscriber(client.surroundings, here, client.outageOf(role, home), {
          ready: (ready) => {
            // Another server may be there now, which permits what was denied before.
            for (const route of this.#routes.values())
              if (route.refused?.home === ready.home.name) route.refused = undefined;
            this.#reconcile();
          },
          ended: (ended) => {
            this.#ended(ended);
          },
          message: (channel, payload) => {
            if (this.#routes.has(channel)) this.#listener.message(channel, payload);
          },
          // When all that came in one piece was read: a slot may take several channels with it.
          moved: () => {
            this.#movedTimer ??= client.surroundings.clock.setTimer(this.#moved, 1);
          },
        }),
    );
    (isSharded ? this.#sharded : this.#classic).set(home, subscriber);
    return subscriber;
  }

  /** Sharded channels were unsubscribed, unasked. Which ones is not said: all are asked for again, which harms none that stands. */
  readonly #moved = (): void => {
    this.#movedTimer = undefined;
    this.#client.cluster?.refresh();
    for (const route of this.#routes.values()) {
      const { slot, stands } = route;
      if (slot === undefined || !stands?.wire || route.asked) continue;
      route.asked = stands;
      this.#ask(stands, [route]);
    }
  };

  #ended(subscriber: Subscriber): void {
    if (subscriber.home.name === this.#classicHome) this.#classicHome = undefined;
    this.#client.cluster?.refresh();
    for (const route of this.#routes.values()) {
      if (route.asked === subscriber) route.asked = undefined;
      if (route.stands !== subscriber) continue;
      route.stands = undefined;
      this.#listener.lost(route.channel);
    }
    this.#reconcile();
  }

  /** The home of a channel; undefined: not known now. */
  #homeOf({ slot }: Route): string | undefined {
    const { cluster } = this.#client;
    if (!this.#client.isCluster) return ONLY_HOME;
    if (slot !== undefined) return cluster?.masterOf(slot);
    const masters = cluster?.masters ?? [];
    if (this.#classicHome === undefined || !masters.includes(this.#classicHome)) {
      // Not the one that has just ended, if there is another.
      const open = masters.filter((home) => this.#classic.get(home)?.isFailing !== true);
      const from = open.length > 0 ? open : masters;
      const index = Math.floor(this.#client.surroundings.random() * from.length);
      if (from[index] !== undefined) this.#classicHome = from[index];
    }
    return this.#classicHome;
  }

  #isUsed(subscriber: Subscriber): boolean {
    for (const { stands, asked } of this.#routes.values())
      if (stands === subscriber || asked === subscriber) return true;
    return false;
  }

  /** Closes the connections whose home is gone: they would try to connect for ever, and never end their outage. */
  #closeUnused(): void {
    if (!this.#client.isCluster) return;
    const { cluster } = this.#client;
    if (!cluster) return;
    for (const subscribers of [this.#classic, this.#sharded]) {
      for (const [home, subscriber] of subscribers) {
        const isHome =
          subscribers === this.#sharded
            ? cluster.masters.includes(home)
            : home === this.#classicHome;
        if (isHome || this.#isUsed(subscriber)) continue;
        subscribers.delete(home);
        subscriber.close();
      }
    }
  }

  *#all(): Iterable<Subscriber> {
    yield* this.#classic.values();
    yield* this.#sharded.values();
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
