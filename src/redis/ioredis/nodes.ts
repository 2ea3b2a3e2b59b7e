// The nodes of a cluster, as ioredis' client for it knows them and is connected to them.

import type { Cluster, Redis } from 'ioredis';
import type { ClusterListener, ClusterNode, ClusterNodes, RedisClient } from '../driver.js';
import { subscriberBeside } from './clients.js';
import { IoredisSender } from './sender.js';

type Connect = (ioredis: Redis) => RedisClient;

class IoredisNode extends IoredisSender<Redis> implements ClusterNode {
  readonly address: string;
  readonly #connect: Connect;

  constructor(redis: Redis, connect: Connect) {
    super(redis);
    this.#connect = connect;
    this.address = addressOf(redis);
  }

  /** Whether a command is unanswered; or ioredis is connecting, and asks something itself before it calls the connection ready. */
  get owesAnswer(): boolean {
    const { status } = this.ioredis;
    const { commandQueue } = this.ioredis as { commandQueue?: { length: number } }; // ioredis does not declare it
    const isConnecting = status === 'connecting' || status === 'connect';
    return isConnecting || (status === 'ready' && (commandQueue?.length ?? 0) > 0);
  }

  get bytesRead(): number | undefined {
    return bytesReadBy(this.ioredis);
  }

  /** By the same method as ioredis' own redirections, so that the cluster's client tells if ASKING is denied. */
  asking(): void {
    this.ioredis.asking().catch(() => undefined);
  }

  disconnect(): void {
    this.ioredis.disconnect();
  }

  connectBeside(): RedisClient {
    return this.#connect(subscriberBeside(this.ioredis));
  }
}

export class IoredisNodes implements ClusterNodes {
  readonly #cluster: Cluster;
  readonly #connect: Connect;
  /** Each connection has one `ClusterNode`, always the same: whoever awaits something of the node knows it by that. */
  readonly #known = new WeakMap<Redis, ClusterNode>();

  constructor(cluster: Cluster, connect: Connect) {
    this.#cluster = cluster;
    this.#connect = connect;
  }

  masterOf(slot: number): string | undefined {
    return this.#cluster.slots[slot]?.[0];
  }

  get nodes(): readonly ClusterNode[] {
    return this.#of('all');
  }

  get masters(): readonly ClusterNode[] {
    return this.#of('master');
  }

  node(address: string): ClusterNode | undefined {
    const found = this.#cluster.nodes('all').find((redis) => {
      const isUsable = redis.status === 'ready' || redis.status === 'wait'; // which connects with the first command
      return isUsable && addressOf(redis) === address;
    });
    return found && this.#node(found);
  }

  reachedAt(announced: string): string {
    const { natMap } = this.#cluster.options;
    const mapped = typeof natMap === 'function' ? natMap(announced) : natMap?.[announced];
    return mapped ? `${mapped.host}:${String(mapped.port)}` : announced;
  }

  refresh(): void {
    this.#cluster.refreshSlotsCache();
  }

  watch({ refreshed, nodeAdded, nodeLost }: ClusterListener): void {
    this.#cluster.on('refresh', refreshed);
    if (nodeAdded) this.#cluster.on('+node', nodeAdded);
    this.#cluster.on('-node', (redis: Redis) => {
      nodeLost(addressOf(redis));
    });
  }

  #of(role: 'all' | 'master'): ClusterNode[] {
    return this.#cluster.nodes(role).map((redis) => this.#node(redis));
  }

  #node(redis: Redis): ClusterNode {
    let node = this.#known.get(redis);
    if (!node) {
      node = new IoredisNode(redis, this.#connect);
      this.#known.set(redis, node);
    }
    return node;
  }
}

/** undefined: it has no connection. */
export function bytesReadBy(redis: Redis): number | undefined {
  return (redis.stream as { bytesRead?: number } | undefined)?.bytesRead;
}

function addressOf({ options: { host, port } }: Redis): string {
  return `${String(host)}:${String(port)}`;
}
