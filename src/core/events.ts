// The listeners of a client's events.

import { channel } from 'node:diagnostics_channel';
import { inspect } from 'node:util';
import { EventEmitter } from 'eventemitter3';
import { invalid, parseFunction } from '../api/options.js';
import { CHANNELS, type PointMessages } from '../api/channels.js';
import type { ErrorEvent, Events, HoldfastEvents } from '../api/events.js';
import { News } from '../redis/reconnecting.js';
import { outsideScopes } from '../scopes/scope.js';

type Listener<Name extends keyof HoldfastEvents> = HoldfastEvents[Name];

const CHANNEL_OF = {
  lost: channel(CHANNELS.lost),
  renewed: channel(CHANNELS.renewed),
  handedOver: channel(CHANNELS.handedOver),
  connection: channel(CHANNELS.connection),
};

/** Calls listeners, outside all scopes. A listener that throws affects neither the lock that emits the event nor other listeners. */
export class Listeners implements Events {
  readonly #emitter = new EventEmitter();
  /** The listeners that have thrown, or whose promise was rejected. */
  readonly #failing = new Set<FailingListener>();
  /** For each listener the function registered with the emitter: it calls the listener and reports errors. */
  readonly #guarded = new WeakMap<object, (event: unknown) => void>();
  readonly #clientId: string;
  /** How many outages an error was reported of. */
  outages = 0;
  #isOutageCounted = false;
  /** The connections that are down. */
  readonly #down = new Set<unknown>();
  #isOutageWarned = false;
  /** The errors without a listener, outside an outage, for which a process warning was already emitted. */
  #unheard = new News();

  constructor(clientId = '') {
    this.#clientId = clientId;
  }

  on<Name extends keyof HoldfastEvents>(name: Name, listener: Listener<Name>): void {
    checkListener(name, listener);
    this.#emitter.on(name, this.#guard(name, listener));
  }

  once<Name extends keyof HoldfastEvents>(name: Name, listener: Listener<Name>): void {
    checkListener(name, listener);
    this.#emitter.once(name, this.#guard(name, listener));
  }

  off<Name extends keyof HoldfastEvents>(name: Name, listener: Listener<Name>): void {
    checkListener(name, listener);
    this.#emitter.off(name, this.#guard(name, listener));
  }

  hears(name: keyof HoldfastEvents): boolean {
    return this.#emitter.listenerCount(name) > 0;
  }

  outage(connection: unknown, isOn: boolean): void {
    if (!isOn) {
      this.#down.delete(connection);
      return;
    }
    if (this.#down.size === 0) {
      this.#isOutageCounted = false;
      this.#isOutageWarned = false;
      this.#unheard = new News();
    }
    this.#down.add(connection);
  }

  emit<Name extends keyof HoldfastEvents>(
    name: Name,
    describe: () => Parameters<Listener<Name>>[0],
  ): void {
    if (name === 'error' && this.#down.size > 0 && !this.#isOutageCounted) {
      this.#isOutageCounted = true;
      this.outages++;
    }
    if (this.hears(name)) outsideScopes(() => this.#emitter.emit(name, describe()));
    else if (name === 'error') this.#warn((describe() as ErrorEvent).error.message);
  }

  publish<Name extends keyof PointMessages>(
    name: Name,
    describe: () => Omit<PointMessages[Name], 'clientId'>,
  ): void {
    const to = CHANNEL_OF[name];
    if (!to.hasSubscribers) return;
    outsideScopes(() => {
      to.publish({ clientId: this.#clientId, ...describe() });
    });
  }

  /** The client is closed: tells how often each listener has failed, if that was not told each time. */
  closed(): void {
    for (const { name, count, warnedCount } of this.#failing)
      if (count > warnedCount)
        warn(`a listener of "${name}" failed ${count} times while its client was open`);
    this.#failing.clear();
  }

  /** Emits a process warning about an error without a listener: one per outage, and one for each other error. */
  #warn(message: string): void {
    const isOutage = this.#down.size > 0;
    if (isOutage ? this.#isOutageWarned : !this.#unheard.isNewMessage(message)) return;
    this.#isOutageWarned ||= isOutage;
    warn(
      `${message} (nobody listens to the "error" event, which tells more: holdfast.on('error', …))`,
    );
  }

  #guard<Name extends keyof HoldfastEvents>(
    name: Name,
    listener: Listener<Name>,
  ): (event: unknown) => void {
    const known = this.#guarded.get(listener);
    if (known) return known;
    const failing: FailingListener = { name, count: 0, warnedCount: 0, news: new News() };
    const report = (error: unknown): void => {
      this.#failing.add(failing);
      failing.count++;
      // (Its stack is only made for a warning: there may be an event for each of thousands of locks.)
      if (!failing.news.isNewMessage(error instanceof Error ? error.message : inspect(error)))
        return;
      failing.warnedCount++;
      warn(`a listener of "${name}" failed: ${inspect(error)}`);
    };
    const call = listener as (event: unknown) => unknown;
    const guarded = (event: unknown): void => {
      try {
        const result = call(event);
        if (result instanceof Promise) result.catch(report);
      } catch (error) {
        report(error);
      }
    };
    this.#guarded.set(listener, guarded);
    return guarded;
  }
}

/** Each name of an event once. */
const EVENTS: Readonly<Record<keyof HoldfastEvents, true>> = {
  acquired: true,
  released: true,
  waiting: true,
  renewed: true,
  lost: true,
  warning: true,
  error: true,
  refused: true,
  recovered: true,
};

/** @throws OptionError there is no such event, so that the listener would never be called; or it is no function */
function checkListener(name: unknown, listener: unknown): void {
  if (typeof name !== 'string' || !Object.hasOwn(EVENTS, name))
    throw invalid('the name of an event', name, `one of ${Object.keys(EVENTS).join(', ')}`);
  parseFunction(listener, `the listener of "${name}"`);
}

/** How often a listener has failed, and of how many of its failures a process warning was emitted: of each message once. */
interface FailingListener {
  readonly name: keyof HoldfastEvents;
  count: number;
  warnedCount: number;
  readonly news: News;
}

function warn(message: string): void {
  process.emitWarning(message, 'HoldfastWarning');
}

// Reports what works but is probably a mistake: by an event, and by one process warning for each mistake and lock name.

export type Mistake =
  | 'nested call'
  | 'forgotten unlock'
  | 'overlapping calls'
  | 'short time'
  | 'forgotten hold'
  | 'late use';

/** For how many pairs of mistake and lock name a process warning is emitted; none after that. */
const MAX_WARNED = 1_000;

export class Warnings {
  readonly #events: Events;
  readonly #news = new News(MAX_WARNED);

  constructor(events: Events) {
    this.#events = events;
  }

  /** Emits the event each time, but a process warning only the first time for this mistake and lock name. */
  warn(mistake: Mistake, lockName: string, message: string, ownerId?: string): void {
    this.#events.emit('warning', () => ({ message, lockName, ownerId }));
    if (this.#isNews(mistake, lockName)) warn(message);
  }

  /** Also emits the event only the first time for this mistake and lock name, since a loop would repeat it each round. */
  warnOnce(mistake: Mistake, lockName: string, message: string): void {
    if (!this.#isNews(mistake, lockName)) return;
    this.#events.emit('warning', () => ({ message, lockName }));
    warn(message);
  }

  #isNews(mistake: Mistake, lockName: string): boolean {
    return this.#news.isNews(`${mistake} ${lockName}`);
  }
}
