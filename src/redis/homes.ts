// Where channels are told of: by the one server that there is, or in a cluster by the master that has the channel's slot.

import type { ClusterNodes, RedisClient } from './driver.js';

/** The servers that tell of channels, each known by its address. */
export interface Homes {
  /**
   * Which one tells of the channels of a slot, or of classic ones; undefined: that is not known now. `otherThan`: one that cannot be
   * reached, which is not to tell of classic ones if there is another.
   */
  of(slot: number | undefined, otherThan?: string): string | undefined;
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

  of(slot: number | undefined, otherThan?: string): string | undefined {
    const home = slot === undefined ? this.#anyNode(otherThan) : this.#nodes.masterOf(slot);
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

  #anyNode(otherThan?: string): string | undefined {
    const isUsable = this.#classic !== undefined && this.has(this.#classic);
    if (!isUsable || this.#classic === otherThan) {
      const addresses = this.#nodes.masters.map(({ address }) => address);
      const others = addresses.filter((address) => address !== otherThan);
      const from = others.length > 0 ? others : addresses;
      this.#classic = from[Math.floor(Math.random() * from.length)];
    }
    return this.#classic;
  }
}
