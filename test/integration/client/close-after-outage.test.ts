// close() when Redis has just come back, or is silent: nothing is left behind, neither on the server nor in the process.
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { activeTimers, restingTimers } from '../../support/leftovers.js';
import {
  connectedClient,
  newClient,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { RedNodes } from '../../support/red-nodes.js';
import { commandOf, knowsOnlyReleases } from '../../support/lock-commands.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startRedis } from '../../support/redis-server.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

const HOUR_MS = 3_600_000;
const ROUNDS = 12;

const redis = sharedConnection();
const proxy = proxyPerTest();

/** The command that was lost with the connection and may have run on the server. */
const losses = {
  /** It ran, and its reply was lost: the caller gives up before it can ask again. */
  acquisition: async (client: Holdfast, name: string): Promise<void> => {
    const lost = proxy().loseReplyTo(commandOf('acquire', name));
    const acquiring = rejectionOf(client.getLock(name).acquire({ wait: 50, lease: HOUR_MS }));
    await lost.happened;
    proxy().refuse();
    expect(await acquiring).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  },
  /** Never sent: the lease ended locally, or the caller did not wait for it. */
  release: async (client: Holdfast, name: string): Promise<void> => {
    const hold = await client.getLock(name).acquire({ lease: HOUR_MS });
    proxy().refuse();
    proxy().cut();
    hold.release().catch(() => undefined);
  },
  'place in line': async (client: Holdfast, name: string): Promise<void> => {
    const lost = proxy().loseReplyTo(commandOf('join', name));
    const acquiring = rejectionOf(client.getFairLock(name).acquire({ wait: 50, lease: HOUR_MS }));
    await lost.happened;
    proxy().refuse();
    expect(await acquiring).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  },
};

describe.each(Object.keys(losses) as (keyof typeof losses)[])(
  'close() right after the server came back, with a %s lost',
  (loss) => {
    it(`leaves no key, in any of ${ROUNDS} rounds`, async () => {
      const kept: string[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const name = uniqueName();
        const client = await connectedClient({
          redis: proxy().url,
          lockWatchdogTimeout: 30_000,
          commandTimeout: 5_000,
        });
        await losses[loss](client, name);
        await proxy().accept();
        await client.close();
        if (await redis.exists(name)) kept.push(name);
      }
      expect(kept).toEqual([]);
    });
  },
);

describe('close() on a server that stays away', () => {
  it('ends after commandTimeout', async () => {
    const client = await connectedClient({ redis: proxy().url, commandTimeout: 300 });
    const name = uniqueName();
    await losses.acquisition(client, name);
    await settlesSoon(client.close());
    await redis.del(name);
  });

  it('leaves no timer when the server is silent', async () => {
    await using server = await startRedis();
    const client = await connectedClient({ redis: server.url, commandTimeout: 200 });
    await client.getLock('held').acquire({ lease: HOUR_MS });
    await server.pause();
    const acquiring = rejectionOf(client.getLock('wanted').acquire());
    await settlesSoon(client.close());
    expect(await acquiring).toMatchObject({ code: 'CLIENT_CLOSED' });
    await new Promise(setImmediate);
    const timers = [...activeTimers().values(), ...restingTimers().values()];
    expect(timers.filter((origin) => origin.includes('/src/'))).toEqual([]);
    await server.resume();
  });
});

it('close() waits for an acquisition that is under way: its release may have overtaken it', async () => {
  await using server = await startRedis();
  await using slow = await startProxy(server.port);
  const client = await connectedClient({ redis: slow.url, lockWatchdogTimeout: 30_000 });
  await using looker = newClient({ redis: server.url });
  await knowsOnlyReleases(server.url);
  slow.delay({ upstreamMs: 10, downstreamMs: 90 });
  const acquiring = rejectionOf(client.getLock('a').acquire());
  await sleep(20);
  await client.close();
  expect(await acquiring).toMatchObject({ code: 'CLIENT_CLOSED' });
  await sleep(200); // what was sent before has arrived
  expect(await looker.getLock('a').isLocked()).toBe(false);
});

it('the masters of a Redlock that come back while all its clients close keep no vote', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await using first = await startProxy(servers[0]!.port);
  const client = await nodes.client({ lockWatchdogTimeout: 30_000, commandTimeout: 5_000 }, [
    first.url,
    ...nodes.urls.slice(1),
  ]);
  const lock = client.lock(uniqueName());
  await lock.acquire({ lease: HOUR_MS });
  first.refuse();
  first.cut();
  await first.accept();
  await client[Symbol.asyncDispose]();
  expect(await nodes.owners(lock)).toEqual(['', '', '']);
});

async function settlesSoon(promise: Promise<void>): Promise<void> {
  const startMs = performance.now();
  await promise;
  expect(performance.now() - startMs).toBeLessThan(2_000);
}
