// Masters that die, or refuse the client for good, while a caller wants a Redlock over them.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { LockTimeoutError } from '../../../src/index.js';
import { eventsOf, rejectionOf } from '../../support/clients.js';
import { eventually, NEVER, settledWithin } from '../../support/time.js';
import { expectWarnings } from '../../support/expected-warnings.js';
import { RedClient, RedNodes } from '../../support/red-nodes.js';
import { startRedis } from '../../support/redis-server.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

expectWarnings(/: Redis .* is too old/);

it('a waiter whose masters die meanwhile does not get the answer that another client has the lock', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await using holder = await nodes.client({ lockWatchdogTimeout: 60_000, commandTimeout: 1_000 });
  await using client = await nodes.client({ lockWatchdogTimeout: 60_000, commandTimeout: 1_000 });
  const lock = client.lock(uniqueName());
  await holder.lock(lock.name).acquire({ lease: 60_000 });
  const waiting = rejectionOf(lock.acquire({ wait: 4_000 }));
  await sleep(1_000);
  await Promise.all(servers.map((server) => server.kill()));
  const error = await waiting;
  expect(error).not.toBeInstanceOf(LockTimeoutError);
});

it('masters that are too old are reported as such, and at once', async () => {
  await using servers = await startMasters(3);
  const redis = new Redis(servers[0]!.url);
  const [, version] = /redis_version:(\S+)/.exec(await redis.info('server'))!;
  redis.disconnect();
  const oldVersion = `6.0.${'9'.repeat(version!.length - 4)}`;
  const proxies = await Promise.all(servers.map(({ port }) => startProxy(port)));
  for (const proxy of proxies)
    proxy.rewrite(`redis_version:${version!}`, `redis_version:${oldVersion}`);
  const client = new RedClient(
    proxies.map(({ url }) => url),
    { lockWatchdogTimeout: 9_000 },
  );
  const errors = eventsOf(client.holdfast, 'error');
  await eventually(() => {
    expect(errors.length).toBeGreaterThan(0);
  });
  await sleep(300);
  const error = await settledWithin(
    rejectionOf(client.lock(uniqueName()).acquire({ wait: 20_000 })),
    10_000,
  );
  await client[Symbol.asyncDispose]();
  await Promise.all(proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
  expect(String(error)).toContain('too old');
});

it('with a wrong password everywhere, lock() fails instead of waiting for ever', async () => {
  const servers = await Promise.all(
    [1, 2, 3].map(() => startRedis({ args: ['--requirepass', 'secret'] })),
  );
  const urls = servers.map(({ host, port }) => `redis://:wrong@${host}:${port}`);
  const client = new RedClient(urls, { lockWatchdogTimeout: 9_000 });
  await sleep(500);
  const outcome = await settledWithin(rejectionOf(client.lock(uniqueName()).lock()), 4_000);
  await client[Symbol.asyncDispose]();
  await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
  expect(outcome).not.toBe(NEVER);
});

it('the removal of lost Redlocks is not retried every second while most masters are down', async () => {
  await using servers = await startMasters(3);
  const nodes = new RedNodes(servers);
  await using client = await nodes.client({ lockWatchdogTimeout: 1_500 });
  for (let count = 0; count < 50; count++) await client.lock(uniqueName()).acquire();
  const lost = eventsOf(client.holdfast, 'lost');
  await Promise.all([servers[1]!.kill(), servers[2]!.kill()]);
  await eventually(() => {
    expect(lost).toHaveLength(50);
  });
  await sleep(2_000);
  const redis = new Redis(servers[0]!.url);
  const calls = async (): Promise<number> =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0);
  const before = await calls();
  await sleep(4_000);
  const sent = (await calls()) - before;
  redis.disconnect();
  expect(sent).toBeLessThan(50);
});
