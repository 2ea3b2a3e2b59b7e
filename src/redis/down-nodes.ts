// A node of a cluster that refuses with CLUSTERDOWN: it lost touch with the others, or the slots that it had. It redirects nobody to who
// has them now, and its connection is well: nothing but that answer tells a client to ask anew which node has what.

import { inOwnContext } from '../runtime/own-context.js';
import type { ClusterNodes } from './driver.js';
import { isClusterDown } from './failure.js';

/** Many commands may be refused at once, and again until somebody has taken over: they ask anew once in so long. */
const PAUSE_MS = 250;

export class DownNodes {
  readonly #cluster: ClusterNodes;
  #askedAtMs = -Infinity;

  constructor(cluster: ClusterNodes) {
    this.#cluster = cluster;
  }

  /**
   * A command has failed. Whoever is asked then may not know the latest, and may be that very node: the command is repeated by who sent
   * it, and if it is refused again, another one is asked.
   */
  failed(error: Error): void {
    if (!isClusterDown(error)) return;
    const nowMs = performance.now();
    if (nowMs - this.#askedAtMs < PAUSE_MS) return;
    this.#askedAtMs = nowMs;
    // The connections that come of it are for all.
    inOwnContext(() => {
      this.#cluster.refresh();
    });
  }
}
