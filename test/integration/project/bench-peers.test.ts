// The other libraries in the benchmarks print nothing among the figures.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it, vi, type MockInstance } from 'vitest';
import { nodeRedisson } from '../../../benchmarks/peers/node-redisson.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

describe('node-redisson prints nothing', () => {
  let told: MockInstance;

  beforeEach(() => {
    told = vi.spyOn(console, 'error').mockReturnValue();
  });

  afterEach(() => {
    expect(told).not.toHaveBeenCalled();
  });

  it('when its client is closed while a lock is held', async () => {
    const client = await nodeRedisson.connect({ urls: [inject('redisUrl')], leaseMs: 600 });
    await client.keep(uniqueName());
    client.close();
    await sleep(700); // a renewal was due after a third of the lease
  });

  it('when its server is gone', async () => {
    await using server = await startRedis();
    const client = await nodeRedisson.connect({ urls: [server.url] });
    await server.stop();
    await sleep(300); // it has tried to reconnect
    client.close();
  });
});
