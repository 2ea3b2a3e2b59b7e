// The silence of single nodes of a cluster: ioredis waits for ever for a node's handshake, or for its answers, and the answers of
// other nodes keep the silence of the client as a whole from being noticed.

import type { Cluster, Redis } from 'ioredis';
import { setTimer } from '../runtime/clock.js';

export interface SilenceLimits {
  /** A node that says nothing for so long while something is expected of it is left, and connected to anew. */
  readonly silenceLimitMs: number;
  /** What the limit grows to for a node that never answers in time: one that is slow would be left each time before it can. */
  readonly longestSilenceMs: number;
}

/** How much a node had said when it was looked at, and since when it has said no more. */
interface Seen {
  readonly bytesRead: number | undefined;
  readonly sinceMs: number;
}

export class SilentNodes {
  readonly #cluster: Cluster;
  readonly #limits: SilenceLimits;
  readonly #onTooLong: (error: Error) => void;
  /** The nodes of which something is expected. */
  #expected = new Map<Redis, Seen>();
  /** The limits that have grown, by address. */
  readonly #grown = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  /** `onTooLong` is told of each node that is left. */
  constructor(cluster: Cluster, limits: SilenceLimits, onTooLong: (error: Error) => void) {
    this.#cluster = cluster;
    this.#limits = limits;
    this.#onTooLong = onTooLong;
  }

  /** A command goes out, to whichever node. The nodes are looked at twice within the limit, as long as something is expected. */
  asked(): void {
    this.#timer ??= setTimer(this.#lookSoon, this.#limits.silenceLimitMs / 2);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#expected.clear();
  }

  /** After a blocked event loop the answers may be here, unread: they are read before the nodes are looked at. */
  readonly #lookSoon = (): void => {
    this.#timer = setTimer(this.#look, 1);
  };

  readonly #look = (): void => {
    this.#timer = undefined;
    const nowMs = performance.now();
    const expected = new Map<Redis, Seen>();
    for (const node of this.#cluster.nodes('all')) {
      if (!isExpectedToSpeak(node)) continue;
      const { bytesRead } = (node.stream as { bytesRead?: number } | undefined) ?? {};
      const before = this.#expected.get(node);
      const isNew = before === undefined || before.bytesRead !== bytesRead;
      // Looked at twice within the limit: what it says between two looks came quickly.
      if (before && isNew && nowMs - before.sinceMs < this.#limits.silenceLimitMs)
        this.#grown.delete(addressOf(node));
      const seen = isNew ? { bytesRead, sinceMs: nowMs } : before;
      if (nowMs - seen.sinceMs < this.#limitOf(node)) expected.set(node, seen);
      else this.#leave(node);
    }
    this.#expected = expected;
    if (expected.size > 0) this.asked();
  };

  #limitOf(node: Redis): number {
    return this.#grown.get(addressOf(node)) ?? this.#limits.silenceLimitMs;
  }

  /** The next command for its slots makes another connection, to whoever has them then. */
  #leave(node: Redis): void {
    const limitMs = this.#limitOf(node);
    this.#grown.set(addressOf(node), Math.min(2 * limitMs, this.#limits.longestSilenceMs));
    node.disconnect();
    this.#onTooLong(new Error(`no answer from ${addressOf(node)} within ${String(limitMs)} ms`));
  }
}

/** It has been asked something, or is asked by ioredis itself before its connection counts as ready. */
function isExpectedToSpeak(node: Redis): boolean {
  const { status } = node;
  const { commandQueue } = node as { commandQueue?: { length: number } }; // ioredis does not declare it
  const isConnecting = status === 'connecting' || status === 'connect';
  return isConnecting || (status === 'ready' && (commandQueue?.length ?? 0) > 0);
}

function addressOf({ options: { host, port } }: Redis): string {
  return `${String(host)}:${String(port)}`;
}
