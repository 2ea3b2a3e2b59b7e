// One connection for subscriptions, to one server: subscribes the channels that are wanted, anew on every new connection. Now and then it
// asks whether the server is there, since a connection that died without a word looks like one on which nothing is published.

import { setTimer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';
import { ask, type Answer, type Asked } from './asking.js';
import { failureKind } from './failure.js';
import type { Link, SubscriptionListener } from './link.js';

/** How many channels a connection may keep that nobody wants, but that the server does not permit to unsubscribe. */
const MOST_STRAYS = 1_000;

export interface SubscriberListener {
  /** The server delivers the messages of this channel from now on. */
  subscribed(channel: string): void;
  /** The channel is not subscribed any more. The server is asked for it again. */
  lost(channel: string): void;
  /** The server does not take the subscription, and may have said why. It is not asked again. */
  refused(channel: string, error: Error | undefined): void;
  /** There is a new connection, and all channels that are wanted were asked for on it. */
  ready(): void;
  /** The server does not permit to unsubscribe the channel. */
  stuck(channel: string, error: Error): void;
  message(channel: string, payload: string): void;
}

/** A channel that is wanted. Its state is 'told' while its subscription stands. */
interface Wanted extends Asked {
  state: 'not asked' | 'asked' | 'told';
}

export class Subscriber {
  readonly #link: Link;
  readonly #pingEveryMs: number;
  readonly #listener: SubscriberListener;
  readonly #wanted = new Map<string, Wanted>();
  #lastNonce = 0;
  /** How many channels are still subscribed though nobody wants them, since the server does not permit to unsubscribe them. */
  #strays = 0;
  #pingTimer: NodeJS.Timeout | undefined;
  #lookTimer: NodeJS.Timeout | undefined;

  /** `open` makes the connection. */
  constructor(
    open: (listener: SubscriptionListener) => Link,
    pingEveryMs: number,
    listener: SubscriberListener,
  ) {
    this.#pingEveryMs = pingEveryMs;
    this.#listener = listener;
    this.#link = open({
      ready: () => {
        this.askAgain();
        listener.ready();
      },
      closed: this.#down,
      outOfStep: this.#lookSoon,
      moved: this.#lookSoon,
      message: (channel, payload) => {
        if (this.#wanted.has(channel)) listener.message(channel, payload);
      },
    });
  }

  get isIdle(): boolean {
    return this.#wanted.size === 0;
  }

  subscribe(channel: string, isSharded: boolean): void {
    if (this.#wanted.has(channel)) return;
    const wanted: Wanted = { channel, isSharded, state: 'not asked' };
    this.#wanted.set(channel, wanted);
    this.#pingLater();
    void this.#ask([wanted]);
  }

  unsubscribe(channel: string): void {
    const wanted = this.#wanted.get(channel);
    if (!wanted) return;
    this.#forget(wanted);
    if (!this.#link.isReady || wanted.state === 'not asked') return;
    this.#link.client.unsubscribe(channel, wanted.isSharded, (error) => {
      if (failureKind(error) === 'denied') this.#stuck(channel, error);
    });
  }

  /** Asks for all channels that are wanted and were not asked for on this connection. */
  readonly askAgain = (): void => {
    const asked = [...this.#wanted.values()].filter(({ state }) => state === 'not asked');
    if (asked.length > 0) void this.#ask(asked);
  };

  /** Resolves when the connection is gone. */
  close(): Promise<void> {
    clearTimeout(this.#pingTimer);
    clearTimeout(this.#lookTimer);
    this.#wanted.clear();
    return this.#link.close();
  }

  async #ask(asked: readonly Wanted[]): Promise<void> {
    if (!this.#link.isReady) return; // when it is ready, all are asked for
    for (const wanted of asked) wanted.state = 'asked';
    const answers = await ask(this.#link, asked, ++this.#lastNonce);
    if (answers === 'lost') return; // on the next connection all are asked for again
    if (answers === 'mixed up') {
      // Until nothing is unanswered for once, each reply would be taken for that to another command.
      this.#link.reconnect();
      return;
    }
    for (const wanted of asked) {
      const isStillWanted = this.#wanted.get(wanted.channel) === wanted;
      if (isStillWanted && wanted.state === 'asked')
        this.#answered(wanted, answers.get(wanted), asked);
    }
  }

  #answered(wanted: Wanted, answer: Answer, askedTogether: readonly Wanted[]): void {
    if (answer === 'told') {
      wanted.state = 'told';
      this.#listener.subscribed(wanted.channel);
      return;
    }
    wanted.state = 'not asked';
    const isPerhapsOfAnother = !wanted.isSharded && askedTogether.length > 1;
    if (isPerhapsOfAnother && answer && failureKind(answer) === 'denied') {
      void this.#ask([wanted]); // alone: a SUBSCRIBE for several is refused if one of them is denied
      return;
    }
    this.#forget(wanted);
    this.#listener.refused(wanted.channel, answer);
  }

  #forget(wanted: Wanted): void {
    this.#wanted.delete(wanted.channel);
    if (!this.isIdle) return;
    clearTimeout(this.#pingTimer);
    this.#pingTimer = undefined;
  }

  readonly #down = (): void => {
    this.#strays = 0;
    for (const wanted of this.#wanted.values()) this.#lost(wanted);
  };

  #lost(wanted: Wanted): void {
    const wasTold = wanted.state === 'told';
    wanted.state = 'not asked';
    if (wasTold) this.#listener.lost(wanted.channel);
  }

  /** A slot that moves away takes its channels with it: the server unsubscribes us, and the driver's client strikes them off its list. */
  readonly #look = (): void => {
    clearTimeout(this.#lookTimer);
    this.#lookTimer = undefined;
    const standing = this.#link.client.shardedChannels;
    for (const wanted of this.#wanted.values()) {
      if (wanted.isSharded && wanted.state === 'told' && !standing.has(wanted.channel))
        this.#lost(wanted);
    }
    this.askAgain();
  };

  /** Looks when all that came in one piece was read: a slot may take several channels with it. */
  readonly #lookSoon = (): void => {
    this.#lookTimer ??= inOwnContext(() => setTimer(this.#look, 1));
  };

  #pingLater(): void {
    this.#pingTimer ??= inOwnContext(() => setTimer(this.#ping, this.#pingEveryMs));
  }

  readonly #ping = (): void => {
    this.#pingTimer = undefined;
    if (this.isIdle) return;
    this.#pingLater();
    void this.#ask([]).then(this.#look);
  };

  /** Only a new connection gets rid of such channels. That is worth it when no channel is wanted, or when they are too many. */
  #stuck(channel: string, error: Error): void {
    this.#listener.stuck(channel, error);
    if (++this.#strays <= MOST_STRAYS && !this.isIdle) return;
    this.#strays = 0;
    this.#link.reconnect();
  }
}
