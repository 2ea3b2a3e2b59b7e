// What our clients of a cluster are given of its start-up nodes.

import type { ClusterOptions, DNSLookupFunction } from 'ioredis';

/**
 * How the hosts of start-up nodes are looked up. ioredis looks up all of them before it asks any, and gives up if one is not known: that
 * one stays as it is, and fails by itself. (Behind SRV records ioredis goes on to the next host.)
 */
export function lookupOf({
  dnsLookup,
  useSRVRecords = false,
}: ClusterOptions): DNSLookupFunction | undefined {
  if (!dnsLookup || useSRVRecords) return dnsLookup;
  return (host, callback) => {
    dnsLookup(host, (error, ...found) => {
      if (error) callback(null, host);
      else callback(null, ...found);
    });
  };
}
