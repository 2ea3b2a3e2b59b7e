// What our clients of a cluster are given of its start-up nodes.
import type { ClusterOptions, DNSLookupFunction } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { lookupOf } from '../../../../src/redis/ioredis/startup-nodes.js';

describe('the host of a start-up node', () => {
  const dnsLookup: DNSLookupFunction = (host, callback) => {
    if (host === 'known') callback(null, '10.0.0.1', 4);
    else callback(new Error('ENOTFOUND'), '');
  };

  async function resolved(host: string, options: ClusterOptions): Promise<unknown[]> {
    return new Promise((resolve) => {
      lookupOf(options)?.(host, (...answer) => {
        resolve(answer);
      });
    });
  }

  it('is looked up as the user said', async () => {
    expect(await resolved('known', { dnsLookup })).toEqual([null, '10.0.0.1', 4]);
  });

  it('stays as it is where it is not known', async () => {
    expect(await resolved('unknown', { dnsLookup })).toEqual([null, 'unknown']);
  });

  it('is one of several behind an SRV record, of which ioredis takes the next', async () => {
    const options = { dnsLookup, useSRVRecords: true };
    expect(await resolved('unknown', options)).toEqual([new Error('ENOTFOUND'), '']);
  });
});
