// Notices that single nodes of a cluster are silent: a client may wait for ever for a node's handshake, or for its answers, and since other
// nodes answer, the client as a whole is not silent.

import { setTimer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/own-context.js';
import type { ClusterNode, ClusterNodes } from './driver.js';

const LOOKS_PER_LIMIT = 4;

export interface SilenceLimits {
  /** For how long a node may say nothing while something is expected of it, before its connection is dropped. */
  readonly silenceLimitMs: number;
  /** What the limit grows to at most for a node that was left: a slow one would be left each time before it can answer. */
  readonly longestSilenceMs: number;
}

/** How many bytes a node had sent when it was looked at, and since when it has sent no more. */
interface Seen {
  readonly bytesRead: number | undefined;
  readonly sinceMs: number;
}

export class SilentNodes {
  readonly #cluster: ClusterNodes;
  readonly #limits: SilenceLimits;
  readonly #onTooLong: (error: Error) => void;
  /** The nodes of which something is expected. */
  #expected = new Map<ClusterNode, Seen>();
  /** The grown limits of nodes that were left and have not answered quickly since, by address. */
  readonly #grown = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  /** `onTooLong` is told of each node that is left, once until it answers quickly again. */
  constructor(cluster: ClusterNodes, limits: SilenceLimits, onTooLong: (error: Error) => void) {
    this.#cluster = cluster;
    this.#limits = limits;
    this.#onTooLong = onTooLong;
  }

  /** A command goes out, to whichever node. The nodes are looked at now and then, as long as something is expected. */
  asked(): void {
    this.#timer ??= inOwnContext(() =>
      setTimer(this.#lookSoon, this.#limits.silenceLimitMs / LOOKS_PER_LIMIT),
    );
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#expected.clear();
  }

  /** After a blocked event loop answers may be here, unread: they are read before the nodes are looked at. */
  readonly #lookSoon = (): void => {
    this.#timer = setTimer(this.#look, 1);
  };

  readonly #look = (): void => {
    this.#timer = undefined;
    const nowMs = performance.now();
    const expected = new Map<ClusterNode, Seen>();
    for (const node of this.#cluster.nodes) {
      if (!node.owesAnswer) continue;
      const { bytesRead } = node;
      const before = this.#expected.get(node);
      const isNew = before === undefined || before.bytesRead !== bytesRead;
      // The node has sent something after a silence of one look at most: it answers quickly.
      if (before && isNew && nowMs - before.sinceMs < this.#limits.silenceLimitMs / 2)
        this.#grown.delete(node.address);
      const seen = isNew ? { bytesRead, sinceMs: nowMs } : before;
      if (nowMs - seen.sinceMs < this.#limitOf(node)) expected.set(node, seen);
      else this.#leave(node);
    }
    this.#expected = expected;
    if (expected.size > 0) this.asked();
  };

  #limitOf(node: ClusterNode): number {
    return this.#grown.get(node.address) ?? this.#limits.silenceLimitMs;
  }

  /** The next command for its slots makes another connection, to whoever has them then. */
  #leave(node: ClusterNode): void {
    const limitMs = this.#limitOf(node);
    const isNews = !this.#grown.has(node.address);
    this.#grown.set(node.address, Math.min(2 * limitMs, this.#limits.longestSilenceMs));
    node.disconnect();
    if (!isNews) return;
    this.#onTooLong(new Error(`no answer from ${node.address} within ${String(limitMs)} ms`));
  }
}
