// Which of the connections of a cluster's client goes to the node that has a key, or to which a command was redirected.

import type { Cluster, Redis } from 'ioredis';
import { hashTag } from './keys.js';
import { slotOf } from './slots.js';

/** The node that has a key as far as is known; undefined: none, or there is no connection to it. */
export function nodeWith(cluster: Cluster, key: string): Redis | undefined {
  const address = cluster.slots[slotOf(hashTag(key))]?.[0];
  return address === undefined ? undefined : connectionTo(cluster, address);
}

/** Where a command was redirected to: `MOVED` for good, `ASK` this once. */
export interface Redirection {
  readonly kind: 'MOVED' | 'ASK';
  readonly address: string;
}

export function redirectionOf(error: unknown): Redirection | undefined {
  if (!(error instanceof Error)) return undefined;
  const [, kind, address] = /^(MOVED|ASK) \d+ (\S+)/.exec(error.message) ?? [];
  return address === undefined ? undefined : { kind: kind as Redirection['kind'], address };
}

/** The node that calls itself by this address; undefined: there is no connection to it. */
export function nodeCalled(cluster: Cluster, address: string): Redis | undefined {
  const { natMap } = cluster.options;
  const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
  return connectionTo(cluster, mapped ? `${mapped.host}:${String(mapped.port)}` : address);
}

function connectionTo(cluster: Cluster, address: string): Redis | undefined {
  return cluster.nodes('all').find(({ options: { host, port }, status }) => {
    const isUsable = status === 'ready' || status === 'wait'; // which connects with the first command
    return isUsable && `${String(host)}:${String(port)}` === address;
  });
}
