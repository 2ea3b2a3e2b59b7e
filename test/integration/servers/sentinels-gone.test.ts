// No Sentinel is reachable: clients connected to a healthy master work, and a client that has to find the master gets an error.
import { Redis } from 'ioredis';
import { expect, it, vi } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { eventsOf, nextEvent, rejectionOf } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startSentinel } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

it.skipIf(topologiesUnavailable)(
  'without Sentinels, locks at a healthy master are kept and acquired, and a client without a connection gets an error',
  async () => {
    await using setup = await startSentinel();
    const { name, sentinels } = setup;
    const printed = vi.spyOn(console, 'error');
    await using client = new Holdfast({
      redis: { name, sentinels },
      lockWatchdogTimeout: 3_000,
      wait: Infinity,
    });
    const lost = eventsOf(client, 'lost');
    const errors = eventsOf(client, 'error');
    const hold = await client.getLock(uniqueName()).acquire();
    for (const sentinel of setup.watchers) await sentinel.kill();

    await nextEvent(client, 'renewed');
    await nextEvent(client, 'renewed');
    await client.getLock(uniqueName()).withLock(() => 1);
    expect(hold.signal.aborted).toBe(false);
    expect(errors).toEqual([]);

    const master = new Redis(setup.master.url);
    await master.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    master.disconnect();
    await expect.poll(() => client.status).toBe('connecting');
    const tried = 'no Sentinel can be reached';
    await expect.poll(() => errors.map(({ error }) => error.message).join()).toContain(tried);
    const refused = await rejectionOf(client.getLock(uniqueName()).tryLock());
    expect(refused).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(String(refused)).toContain(tried);
    const waited = await rejectionOf(client.getLock(uniqueName()).acquire({ wait: 300 }));
    expect(waited).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    await expect.poll(() => lost, { timeout: 10_000 }).toHaveLength(1);
    expect(hold.signal.aborted).toBe(true);
    expect(printed).not.toHaveBeenCalled();
    printed.mockRestore();
  },
  60_000,
);
