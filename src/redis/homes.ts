// Where channels are told of: by the one server that there is, or in a cluster by the master that has the channel's slot.

import type { ClusterNodes, RedisClient } from './driver.js';

/** The servers that tell of channels, each known by its address. */
export interface Homes {
  /** Which one tells of the channels of a slot, or of classic ones; undefined: that is not known now. */
  of(slot: number | undefined): string | undefined;
  has(home: string): boolean;
  /** A new client for subscriptions there; undefined: it is gone. */
  connect(home: string): RedisClient | undefined;
  /** Asks anew which server has what; `onChange` tells of the answer. */
  refresh(): void;
  onChange(listener: () => void): void;
}

/** `connect` makes clients for the one server, wherever that is. */
export function homesOf(commands: RedisClient, connect: () => RedisClient): Homes {
  if (commands.cluster) return new ClusterHomes(commands.cluster);
  const nothing = (): void => undefined; // the only one never changes
  return { of: () => '', has: () => true, connect, refresh: nothing, onChange: nothing };
}

/** What the cluster's client for commands knows of its nodes. */
class ClusterHomes implements Homes {
  readonly #nodes: ClusterNodes;
  /** All nodes tell of classic channels: one of them will do. */
  #classic: string | undefined;

  constructor(nodes: ClusterNodes) {
    this.#nodes = nodes;
  }

  of(slot: number | undefined): string | undefined {
    const home = slot === undefined ? this.#anyNode : this.#nodes.masterOf(slot);
    return home !== undefined && this.has(home) ? home : undefined;
  }

  has(home: string): boolean {
    return this.#nodes.masters.some(({ address }) => address === home);
  }

  connect(home: string): RedisClient | undefined {
    return this.#nodes.masters.find(({ address }) => address === home)?.connectBeside();
  }

  refresh(): void {
    this.#nodes.refresh();
  }

  onChange(listener: () => void): void {
    this.#nodes.watch({ refreshed: listener, nodeAdded: listener, nodeLost: listener });
  }

  get #anyNode(): string | undefined {
    if (this.#classic === undefined || !this.has(this.#classic)) {
      const { masters } = this.#nodes;
      this.#classic = masters[Math.floor(Math.random() * masters.length)]?.address;
    }
    return this.#classic;
  }
}
