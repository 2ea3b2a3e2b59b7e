// Has slots looked up anew when a node of a cluster refuses with CLUSTERDOWN: it lost touch with the others, or the slots that it had. Such
// a node redirects nobody to the one that has them now, and its connection is well: a client learns of it by that answer only.

import { inOwnContext } from '../runtime/own-context.js';
import type { ClusterNodes } from './driver.js';
import { isClusterDown } from './failure.js';

/** Many commands may be refused at once, and again until another node has taken over: slots are looked up once in so long at most. */
const PAUSE_MS = 250;

export class DownNodes {
  readonly #cluster: ClusterNodes;
  #askedAtMs = -Infinity;

  constructor(cluster: ClusterNodes) {
    this.#cluster = cluster;
  }

  /**
   * A command has failed. The node that is asked for the slots may not know the latest, or be the refusing node itself. But whoever sent
   * the command repeats it, and if it is refused again, a node is asked again, perhaps another one.
   */
  failed(error: Error): void {
    if (!isClusterDown(error)) return;
    const nowMs = performance.now();
    if (nowMs - this.#askedAtMs < PAUSE_MS) return;
    this.#askedAtMs = nowMs;
    // This may make connections, which serve all: they must not run in the context of the caller whose command has failed.
    inOwnContext(() => {
      this.#cluster.refresh();
    });
  }
}
