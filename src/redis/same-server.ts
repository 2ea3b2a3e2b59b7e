// Keeps the connection for subscriptions at the server that commands go to. When a replica has taken over, one of the two may come to be at
// the new master and the other at the former one: the subscriber would listen in vain, and nobody would tell.

import { setTimer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';
import type { Link, SubscriptionListener } from './link.js';
import { parseServerInfo } from './server-info.js';

/** How soon a subscriber that is at another server connects anew; then twice as late each time. */
const RETRY_MS = 500;
/** By then both should be at one server. If each connection leads to another one (by a balancer, perhaps), the subscriber stays there. */
const LONGEST_RETRY_MS = 30_000;

export class SameServer {
  readonly #ofCommands: () => string | undefined;
  #subscriber: Link | undefined;
  /** The run id of the server that the subscriber listens to; undefined: there is none, or its id is not known. */
  #id: string | undefined;
  /** Whether the subscriber is to connect once more when it is connected: servers have changed meanwhile, and do not say which they are. */
  #isDoubted = false;
  #retryMs = RETRY_MS;
  #retryTimer: NodeJS.Timeout | undefined;

  /** `ofCommands`: the run id of the server that commands go to at the moment; undefined: there is none, or its id is not known. */
  constructor(ofCommands: () => string | undefined) {
    this.#ofCommands = ofCommands;
  }

  /** Opens the link for subscriptions, and watches over it from now on. */
  watch(open: (listener: SubscriptionListener) => Link, listener: SubscriptionListener): Link {
    const link = open({
      ...listener,
      ready: () => {
        if (this.#isDoubted) {
          this.#isDoubted = false;
          link.reconnect();
          return;
        }
        // Before it subscribes, since a connection that has subscribed may not ask (RESP2). Nobody waits for the answer.
        const asked = link.ask('info', ['server'], (info) => {
          this.#isAt(parseServerInfo(String(info)).runId);
        });
        asked.catch(() => undefined); // lost, or not permitted: the id stays unknown
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
   * Commands go to another server now than before, or may do so. `id` is its run id; undefined: it does not say. A subscriber that is at
   * that server already stays: while it connected anew, those who wait in line would be taken for gone.
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
    else if (link.isReady) this.#lookLater(); // its INFO is unanswered so far
  };

  /** If the subscriber is at another server, it looks again later: a Sentinel that shows the way may not know yet who has taken over. */
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
