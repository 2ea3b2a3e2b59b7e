// Where channels are told of: by the one server that there is, or in a cluster by the master that has the channel's slot.

import type { Cluster, Redis } from 'ioredis';
import { isCluster, subscriberBeside, type RedisClient } from './clients.js';

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

/** `create` makes clients for one server, wherever that is. */
export function homesOf(commands: RedisClient, create: () => RedisClient): Homes {
  return isCluster(commands) ? new ClusterHomes(commands) : new SingleHome(create);
}

class SingleHome implements Homes {
  readonly connect: () => RedisClient;

  constructor(create: () => RedisClient) {
    this.connect = create;
  }

  of(): string {
    return '';
  }

  has(): boolean {
    return true;
  }

  refresh(): void {
    // It is the only one.
  }

  onChange(): void {
    // It never does.
  }
}

/** What the cluster's client for commands knows of its nodes. */
class ClusterHomes implements Homes {
  readonly #cluster: Cluster;
  /** All nodes tell of classic channels: one of them will do. */
  #classic: string | undefined;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  of(slot: number | undefined): string | undefined {
    const home = slot === undefined ? this.#anyNode : this.#cluster.slots[slot]?.[0];
    return home !== undefined && this.has(home) ? home : undefined;
  }

  has(home: string): boolean {
    return this.#node(home) !== undefined;
  }

  connect(home: string): RedisClient | undefined {
    const node = this.#node(home);
    return node && subscriberBeside(node);
  }

  refresh(): void {
    this.#cluster.refreshSlotsCache();
  }

  onChange(listener: () => void): void {
    for (const event of ['refresh', '+node', '-node']) this.#cluster.on(event, listener);
  }

  #node(home: string): Redis | undefined {
    return this.#cluster.nodes('master').find((node) => addressOf(node) === home);
  }

  get #anyNode(): string | undefined {
    if (this.#classic === undefined || !this.has(this.#classic)) {
      const nodes = this.#cluster.nodes('master');
      const node = nodes[Math.floor(Math.random() * nodes.length)];
      this.#classic = node && addressOf(node);
    }
    return this.#classic;
  }
}

function addressOf({ options: { host, port } }: Redis): string {
  return `${String(host)}:${String(port)}`;
}
