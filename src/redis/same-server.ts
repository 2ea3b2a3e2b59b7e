// Keeps the connection for subscriptions at the server that commands go to. Where one of two has taken over from the other, they may
// end up at one each: nobody would tell the subscriber that it listens in vain.

import { setTimer } from '../runtime/clock.js';
import type { Link, SubscriptionListener } from './link.js';
import { parseServerInfo } from './server-info.js';

/** How soon a subscriber that was led to another server connects anew; then twice as late each time, up to the longest. */
const RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 30_000;

export class SameServer {
  #subscriber: Link | undefined;
  /** Which server it listens to; undefined: none, or not known. */
  #id: string | undefined;
  /** Which server commands go to; undefined: not known. */
  #idOfCommands: string | undefined;
  #retryMs = RETRY_MS;
  #retryTimer: NodeJS.Timeout | undefined;

  /** The link for subscriptions that `open` makes is watched over from now on. */
  watch(open: (listener: SubscriptionListener) => Link, listener: SubscriptionListener): Link {
    const link = open({
      ...listener,
      ready: () => {
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
   * Commands go to this server now; undefined: it does not say which it is. A subscriber that is there already stays: while it
   * connected anew, those who wait in line would be taken for gone.
   */
  readonly follow = (id: string | undefined): void => {
    this.#idOfCommands = id;
    if (id === undefined || id !== this.#id) this.#subscriber?.reconnect();
  };

  /** Whoever showed it the way may not know yet who has taken over; a server that calls itself by a new name each time is no reason to hurry. */
  #isAt(id: string | undefined): void {
    this.#id = id;
    if (id === undefined || this.#idOfCommands === undefined) return;
    if (id === this.#idOfCommands) {
      this.#retryMs = RETRY_MS;
      return;
    }
    this.#retryTimer = setTimer(() => this.#subscriber?.reconnect(), this.#retryMs);
    this.#retryMs = Math.min(2 * this.#retryMs, LONGEST_RETRY_MS);
  }
}
