// Masters whose votes take longer than the lease: the call ends with an error that says so, and no vote is left.
import { describe, expect, it } from 'vitest';
import { rejectionOf } from '../../support/clients.js';
import { redNodes } from '../../support/red-nodes.js';
import { startMasters } from '../../support/redis-topologies.js';
import { settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';
import { expectShortTimes } from '../../support/expected-warnings.js';

expectShortTimes();

const nodes = redNodes(() => startMasters(3));

describe('a Redlock with a lease that is shorter than the round trip', () => {
  it.each([{ wait: 2_000 }, {}])('fails with an error that names the lease: %o', async (bounds) => {
    await using client = await nodes.proxied({ lockWatchdogTimeout: 30_000 });
    const { proxies } = client;
    const lock = client.lock(uniqueName(), { nodeTimeout: 5_000 });
    let commands = 0;
    for (const proxy of proxies) {
      proxy.treatCommands((args) => {
        if (String(args).includes(lock.name)) commands++;
        return undefined;
      });
      proxy.delay({ downstreamMs: 60 });
    }
    const error = await settledWithin(rejectionOf(lock.acquire({ lease: 20, ...bounds })), 10_000);
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(String(error)).toContain('Redis took longer to answer than the lease of 20 ms');
    for (const proxy of proxies) proxy.delay();
    await nodes.nothingLeft(lock);
    expect(commands).toBeLessThan(60);
  });
});
