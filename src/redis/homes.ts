// The homes of channels: the servers at which they are subscribed. There is only one, or in a cluster all masters: the home of a sharded
// channel is the master that has its slot, that of the classic channels is any of them.

import type { ClusterNodes, RedisClient } from './driver.js';

/** The name of the home where there is only one: no cluster. */
export const ONLY_HOME = '';

/** The homes that there are, each named by its address. */
export interface Homes {
  /**
   * The home of the channels of a slot, or of the classic ones, which have none; undefined: it is not known now. `otherThan`: a home
   * that cannot be reached. If it is that of the classic channels, they get another one from now on, where there is one.
   */
  of(slot: number | undefined, otherThan?: string): string | undefined;
  has(home: string): boolean;
  /** A new client for subscriptions at a home; undefined: that home is gone. */
  connect(home: string): RedisClient | undefined;
  /** Looks up anew which server has which slots; then the listeners of `onChange` are called. */
  refresh(): void;
  onChange(listener: () => void): void;
}

/** `connect`: makes a client for the only server, where there is no cluster. */
export function homesOf(commands: RedisClient, connect: () => RedisClient): Homes {
  if (commands.cluster) return new ClusterHomes(commands.cluster);
  const nothing = (): void => undefined; // the only home never changes
  return { of: () => ONLY_HOME, has: () => true, connect, refresh: nothing, onChange: nothing };
}

/** The homes in a cluster: the masters that its client for commands knows. */
class ClusterHomes implements Homes {
  readonly #nodes: ClusterNodes;
  /** The home of all classic channels: every node delivers them, so one will do. */
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
