// What our clients of a cluster are given of its start-up nodes.

import type { Cluster, ClusterNode, ClusterOptions, DNSLookupFunction } from 'ioredis';

/**
 * The start-up nodes without options of these names: what such a node brings, ioredis prefers to what is given for all, also when it
 * connects to it again.
 */
export function startupNodesWithout(names: readonly string[], cluster: Cluster): ClusterNode[] {
  const { startupNodes } = cluster as unknown as { startupNodes: readonly ClusterNode[] };
  return startupNodes.map((node) => {
    if (typeof node === 'string') return urlWithout(names, node);
    if (typeof node !== 'object') return node;
    return Object.fromEntries(
      Object.entries({ ...node }).filter(([name]) => !names.includes(name)),
    );
  });
}

/** ioredis takes what stands behind the "?" for options. */
function urlWithout(names: readonly string[], url: string): string {
  const [, place = '', text] = /^([^?]*)\?(.*)$/s.exec(url) ?? [];
  if (text === undefined) return url;
  const query = new URLSearchParams(text);
  for (const name of names) query.delete(name);
  return `${place}?${query.toString()}`;
}

/**
 * How the hosts of start-up nodes are looked up. ioredis looks up all of them before it asks any, and gives up if one is not known: that
 * one stays as it is, fails by itself, and `failed` is told why, since the connection to it tells nobody. (Behind SRV records ioredis goes
 * on to the next host.)
 */
export function lookupOf(
  { dnsLookup, useSRVRecords = false }: ClusterOptions,
  failed: (error: Error, host: string) => void,
): DNSLookupFunction | undefined {
  if (!dnsLookup || useSRVRecords) return dnsLookup;
  return (host, callback) => {
    dnsLookup(host, (error, ...found) => {
      if (!error) {
        callback(null, ...found);
        return;
      }
      // Behind the event that ends the former attempt: a lookup may end in the turn in which it began.
      process.nextTick(failed, error, host);
      callback(null, host);
    });
  };
}
