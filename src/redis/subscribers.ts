// All subscriptions of one client. Each stands at the home of its channel, the server that delivers its messages, and follows its slot.

import { setTimer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';
import type { Connection } from './connection.js';
import { failureKind, redirectionOf } from './failure.js';
import { ONLY_HOME, type Homes } from './homes.js';
import { hashTag } from './keys.js';
import { slotOf } from './slots.js';
import { SubscriberPool } from './subscriber-pool.js';

/** How soon a subscription that does not stand is tried again; each further try comes twice as late, up to LONGEST_RETRY_MS. */
const RETRY_MS = 200;
const LONGEST_RETRY_MS = 2_000;
/** How soon a subscription that the server does not permit is tried again: somebody may have permitted it meanwhile. */
const DENIED_RETRY_MS = 30_000;

export interface SubscribersListener {
  /** The subscription stands, for the first time or anew: what was published before may have been missed. */
  subscribed(channel: string): void;
  /** The subscription does not stand any more. It is made anew, and `subscribed` tells when it stands again. */
  lost(channel: string): void;
  /** The server does not permit this command on the channel. */
  denied(what: 'SUBSCRIBE' | 'UNSUBSCRIBE', channel: string, error: Error): void;
  message(channel: string, payload: string): void;
}

/** A channel that is wanted, and the homes at which it is subscribed or is to be. */
interface Route {
  readonly channel: string;
  /** The slot of a sharded channel; undefined: the channel is a classic one, which every server delivers. */
  readonly slot: number | undefined;
  /** The home at which the channel is subscribed, or was asked for first; undefined: no home is known, or the one asked has refused. */
  at: string | undefined;
  /** The home to which the channel moves. It is left at `at` only when it is subscribed here, so that no message is missed in between. */
  next: string | undefined;
  /** When the subscription is to be tried again (monotonic): not soon if it is new, as it may need a connection. Infinity: it stands. */
  dueAtMs: number;
  isDenied: boolean;
  /** The home that refused the channel for now. The retry asks it again, but not `#follow`, which runs whenever slots were looked up. */
  refusedBy: string | undefined;
  /** Whether a `MOVED` was followed at once since the last retry: two servers that name each other must not keep us busy. */
  hasFollowed: boolean;
}

export class Subscribers {
  readonly #homes: Homes;
  readonly #listener: SubscribersListener;
  readonly #pool: SubscriberPool;
  readonly #routes = new Map<string, Route>();
  #retryTimer: NodeJS.Timeout | undefined;
  #retryMs = RETRY_MS;
  #deniedTimer: NodeJS.Timeout | undefined;

  constructor(connection: Connection, listener: SubscribersListener) {
    this.#homes = connection.homes;
    this.#listener = listener;
    this.#pool = new SubscriberPool(connection, this.#homes, {
      subscribed: this.#subscribed,
      lost: this.#lost,
      refused: this.#refused,
      ready: this.#askDeniedAt,
      stuck: (channel, error) => {
        listener.denied('UNSUBSCRIBE', channel, error);
      },
      message: (channel, payload) => {
        listener.message(channel, payload);
      },
    });
    this.#homes.onChange(this.#follow);
  }

  subscribe(channel: string, isSharded: boolean): void {
    const slot = isSharded ? slotOf(hashTag(channel)) : undefined;
    const nowhere = { at: undefined, next: undefined, refusedBy: undefined, isDenied: false };
    const dueAtMs = performance.now() + LONGEST_RETRY_MS;
    const route: Route = { channel, slot, ...nowhere, dueAtMs, hasFollowed: false };
    this.#routes.set(channel, route);
    this.#go(route, this.#homes.of(slot));
  }

  unsubscribe(channel: string): void {
    const route = this.#routes.get(channel);
    this.#routes.delete(channel);
    if (!route) return;
    this.#leave(route, route.at);
    this.#leave(route, route.next);
  }

  /** Resolves when all connections are gone. */
  async close(): Promise<void> {
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#deniedTimer);
    this.#routes.clear();
    await this.#pool.close();
  }

  #go(route: Route, home: string | undefined): void {
    route.isDenied = false;
    // Also if a connection takes the channel: nobody tells if it never reaches its home. (Where there is no other home, a retry is no use.)
    if (route.dueAtMs < Infinity && home !== ONLY_HOME) this.#retryLater();
    if (home === undefined || !this.#pool.subscribe(route.channel, home, isSharded(route))) return;
    if (route.next !== home) this.#leave(route, route.next);
    route.at ??= home;
    route.next = route.at === home ? undefined : home;
  }

  #leave(route: Route, home: string | undefined): void {
    if (home !== undefined) this.#pool.unsubscribe(route.channel, home, isSharded(route));
  }

  readonly #subscribed = (channel: string, home: string): void => {
    const route = this.#routes.get(channel);
    if (!route) return;
    if (home === route.next) {
      this.#leave(route, route.at);
      route.at = home;
      route.next = undefined;
    }
    route.dueAtMs = Infinity;
    route.isDenied = false;
    route.refusedBy = undefined;
    route.hasFollowed = false;
    this.#listener.subscribed(channel);
  };

  readonly #lost = (channel: string, home: string): void => {
    const route = this.#routes.get(channel);
    if (route?.at !== home) return;
    route.dueAtMs = 0;
    this.#listener.lost(channel);
    this.#homes.refresh();
    this.#retryLater();
  };

  readonly #refused = (channel: string, home: string, error: Error | undefined): void => {
    const route = this.#routes.get(channel);
    if (!route) return;
    const isForGood = error !== undefined && failureKind(error) !== 'transient';
    if (isForGood) this.#listener.denied('SUBSCRIBE', channel, error);
    if (route.next === home) {
      route.next = undefined; // the channel stays at `at`, whose server tells if the slot has left it
      if (!isSharded(route) && route.dueAtMs < Infinity) route.refusedBy = home; // the retry asks another one
      return;
    }
    route.at = undefined;
    route.isDenied = isForGood;
    route.refusedBy = isForGood && isSharded(route) ? undefined : home;
    if (isForGood) {
      this.#deniedTimer ??= inOwnContext(() => setTimer(this.#askDenied, DENIED_RETRY_MS));
      return;
    }
    const moved = redirectionOf(error);
    const to = moved?.kind === 'MOVED' ? moved.address : undefined;
    if (to !== undefined && !route.hasFollowed && this.#homes.has(to)) {
      route.hasFollowed = true;
      this.#go(route, to);
    } else {
      this.#homes.refresh();
      this.#retryLater();
    }
  };

  readonly #askDenied = (): void => {
    this.#deniedTimer = undefined;
    for (const route of this.#routes.values())
      if (route.isDenied) this.#go(route, this.#homes.of(route.slot, route.refusedBy));
  };

  /** The connection to this home is new. Another server may be there now, which permits what was denied before. */
  readonly #askDeniedAt = (home: string, isOfSharded: boolean): void => {
    for (const route of this.#routes.values()) {
      const isOfTheirs = route.isDenied && isSharded(route) === isOfSharded;
      if (isOfTheirs && this.#homes.of(route.slot) === home) this.#go(route, home);
    }
  };

  #retryLater(): void {
    this.#retryTimer ??= inOwnContext(() => setTimer(this.#retry, this.#retryMs));
  }

  readonly #retry = (): void => {
    this.#retryTimer = undefined;
    const missing = [...this.#routes.values()].filter(
      ({ dueAtMs, isDenied }) => dueAtMs < Infinity && !isDenied,
    );
    const nowMs = performance.now();
    const due = missing.filter(({ at, dueAtMs }) => at === undefined || dueAtMs <= nowMs);
    this.#retryMs = due.length === 0 ? RETRY_MS : Math.min(2 * this.#retryMs, LONGEST_RETRY_MS);
    if (missing.length > 0) this.#retryLater();
    if (due.length === 0) return;
    this.#homes.refresh();
    for (const route of due) {
      // A classic channel goes to any other master. A sharded one goes to the one that has its slot, when `#follow` has learnt which.
      const tried = route.next ?? route.refusedBy ?? route.at;
      const home = this.#homes.of(route.slot, isSharded(route) ? undefined : tried);
      route.refusedBy = undefined;
      route.hasFollowed = false;
      if (route.at === undefined || !isSharded(route)) this.#go(route, home);
    }
    this.#pool.askAgain();
  };

  /** Nodes or slots may have changed. The node that says so may be out of date: a home is left only when the new one has the channel. */
  readonly #follow = (): void => {
    for (const route of this.#routes.values()) {
      const present = route.next ?? route.at;
      const home = this.#homes.of(route.slot);
      const isClassicThere = !isSharded(route) && present !== undefined && this.#homes.has(present);
      const isLeftAlone = home === present || home === route.refusedBy || isClassicThere;
      if (home !== undefined && !isLeftAlone) this.#go(route, home);
    }
    this.#pool.closeLeft();
  };
}

function isSharded({ slot }: Route): boolean {
  return slot !== undefined;
}
