// What our clients of a cluster are given of its start-up nodes.
import { Cluster, type ClusterNode, type ClusterOptions, type DNSLookupFunction } from 'ioredis';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { lookupOf, startupNodesWithout } from '../../../../src/redis/ioredis/startup-nodes.js';

it.each<[ClusterNode, ClusterNode]>([
  [7000, 7000],
  [
    { host: 'h', port: 7000 },
    { host: 'h', port: 7000 },
  ],
  [
    { host: 'h', connectTimeout: 0, password: 'pw' } as object,
    { host: 'h', password: 'pw' } as object,
  ],
  ['redis://h:7000', 'redis://h:7000'],
  ['redis://u:p%3F@h:7000?connectTimeout=0&family=6', 'redis://u:p%3F@h:7000?family=6'],
  ['/tmp/redis.sock?password=a%26b&monitor=1', '/tmp/redis.sock?password=a%26b'],
])('a start-up node brings no option that is ours: %j', (given, expected) => {
  const cluster = new Cluster([given], { lazyConnect: true });
  expect(startupNodesWithout(['connectTimeout', 'monitor'], cluster)).toEqual([expected]);
  cluster.disconnect();
});

describe('the host of a start-up node', () => {
  const dnsLookup: DNSLookupFunction = (host, callback) => {
    if (host === 'known') callback(null, '10.0.0.1', 4);
    else callback(new Error('ENOTFOUND'), '');
  };

  const failed = vi.fn();

  afterEach(() => {
    failed.mockClear();
  });

  async function resolved(host: string, options: ClusterOptions): Promise<unknown[]> {
    return new Promise((resolve) => {
      lookupOf(options, failed)?.(host, (...answer) => {
        resolve(answer);
      });
    });
  }

  it('is looked up as the user said', async () => {
    expect(await resolved('known', { dnsLookup })).toEqual([null, '10.0.0.1', 4]);
    expect(failed).not.toHaveBeenCalled();
  });

  it('stays as it is where it is not known, and that is told once the attempt has begun', async () => {
    const looked = resolved('unknown', { dnsLookup });
    expect(failed).not.toHaveBeenCalled();
    expect(await looked).toEqual([null, 'unknown']);
    await new Promise(setImmediate);
    expect(failed.mock.calls).toEqual([[new Error('ENOTFOUND'), 'unknown']]);
  });

  it('is one of several behind an SRV record, of which ioredis takes the next', async () => {
    const options = { dnsLookup, useSRVRecords: true };
    expect(await resolved('unknown', options)).toEqual([new Error('ENOTFOUND'), '']);
    expect(failed).not.toHaveBeenCalled();
  });
});
