// Keeps the connection for subscriptions at the server that commands go to: after a failover nothing else would tell it that it
// listens to a replica now.

import type { Link, SubscriptionListener } from './link.js';
import { parseServerInfo } from './server-info.js';

export class SameServer {
  #subscriber: Link | undefined;
  /** Which server it listens to; undefined: none, or not known. */
  #id: string | undefined;

  /** The link for subscriptions that `open` makes is watched over from now on. */
  watch(open: (listener: SubscriptionListener) => Link, listener: SubscriptionListener): Link {
    const link = open({
      ...listener,
      ready: () => {
        // Before it subscribes: a connection that has subscribed may not ask. Nobody waits for the answer.
        const asked = link.ask('info', ['server'], (info) => {
          this.#id = parseServerInfo(String(info)).runId;
        });
        asked.catch(() => undefined); // lost, or not permitted: then it is not known
        listener.ready();
      },
      closed: (unsaid) => {
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
    if (id === undefined || id !== this.#id) this.#subscriber?.reconnect();
  };
}
