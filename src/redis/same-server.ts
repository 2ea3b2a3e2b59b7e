// Keeps the connection for subscriptions at the server that commands go to. Where one of two has taken over from the other, they may
// end up at one each: nobody would tell the subscriber that it listens in vain.

import { setTimer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';
import type { Link, SubscriptionListener } from './link.js';
import { parseServerInfo } from './server-info.js';

/** How soon a subscriber that was led to another server connects anew; then twice as late each time. */
const RETRY_MS = 500;
/** By then both should be at one server. Where each connection leads to another one, whatever is done, it is left where it is. */
const LONGEST_RETRY_MS = 30_000;

export class SameServer {
  readonly #ofCommands: () => string | undefined;
  #subscriber: Link | undefined;
  /** Which server it listens to; undefined: none, or not known. */
  #id: string | undefined;
  /** Whether it is to connect once more when it is connected, since nothing else can be said of where it is. */
  #isDoubted = false;
  #retryMs = RETRY_MS;
  #retryTimer: NodeJS.Timeout | undefined;

  /** `ofCommands`: which server commands go to at the moment; undefined: none, or not known. */
  constructor(ofCommands: () => string | undefined) {
    this.#ofCommands = ofCommands;
  }

  /** The link for subscriptions that `open` makes is watched over from now on. */
  watch(open: (listener: SubscriptionListener) => Link, listener: SubscriptionListener): Link {
    const link = open({
      ...listener,
      ready: () => {
        if (this.#isDoubted) {
          this.#isDoubted = false;
          link.reconnect();
          return;
        }
        // Before it subscribes: a connection that has subscribed may not ask. Nobody waits for the answer.
        const asked = link.ask('info', ['server'], (info) => {
          this.#isAt(parseServerInfo(String(info)).runId);
        });
        asked.catch(() => undefined); // lost, or not permitted: then it is not known
        listener.ready();
      },
      closed: (unsaid) => {
        clearTimeout(this.#retryTimer);
        this.#id = undefined;
        listener.closed(unsaid);
      },
    });
    this.#subscriber = link;
    return link;
  }

  /**
   * Commands go to another server now than before, or may; undefined: it does not say which it is. A subscriber that is there already
   * stays: while it connected anew, those who wait in line would be taken for gone.
   */
  readonly follow = (id: string | undefined): void => {
    const link = this.#subscriber;
    this.#retryMs = RETRY_MS;
    if (!link) return;
    if (id === undefined) {
      if (link.isReady) link.reconnect();
      else this.#isDoubted = true;
    } else if (id === this.#id) clearTimeout(this.#retryTimer);
    else if (this.#id !== undefined) link.reconnect();
    else if (link.isReady) this.#lookLater(); // it is about to say where it is
  };

  /** Whoever showed it the way may not know yet who has taken over. */
  #isAt(id: string | undefined): void {
    this.#id = id;
    if (id === undefined) return;
    if (id !== this.#ofCommands()) {
      this.#lookLater();
      return;
    }
    clearTimeout(this.#retryTimer);
    this.#retryMs = RETRY_MS;
  }

  #lookLater(): void {
    clearTimeout(this.#retryTimer);
    if (this.#retryMs > LONGEST_RETRY_MS) return;
    this.#retryTimer = inOwnContext(() => setTimer(this.#look, this.#retryMs));
    this.#retryMs *= 2;
  }

  readonly #look = (): void => {
    const id = this.#ofCommands();
    if (id === undefined) this.#lookLater();
    else if (id !== this.#id) this.#subscriber?.reconnect();
  };
}
