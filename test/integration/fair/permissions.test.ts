// A fair lock for users without all permissions that its line can use.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { connectedClient } from '../../support/clients.js';
import { FairLine } from '../../support/fair-line.js';
import { loadScripts } from '../../support/lock-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';

const LEASE_MS = 3_000;

let server: RedisServer;
let redis: Redis;
let line: FairLine;
/** The user that hands over: without PUBSUB it cannot find out whether others listen. */
let holder: Holdfast;
let proxy: TcpProxy;

beforeEach(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  redis = new Redis(server.url);
  await redis.call('ACL', 'SETUSER', 'uncounting', 'on', 'nopass', '~*', '&*', '+@all', '-pubsub');
  line = new FairLine(redis);
  const { host, port } = server;
  holder = await connectedClient({
    redis: { host, port, username: 'uncounting', password: 'any' },
    lockWatchdogTimeout: 60_000,
  });
  proxy = await startProxy(port);
});

afterEach(async () => {
  await line.isGone();
  await holder.close();
  redis.disconnect();
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

it('without PUBSUB, the first in line gets the lock', async () => {
  await using waiter = await connectedClient({ redis: server.url, lockWatchdogTimeout: 60_000 });
  const hold = await line.lockOf(holder).acquire();
  const one = await line.join(waiter, 'one');
  const two = await line.join(waiter, 'two');
  await hold.release();
  await Promise.all([one.done, two.done]);
  expect(line.turns).toEqual(['one', 'two']);
});

it('without PUBSUB, a dead waiter delays the line until the lease of its place ends', async () => {
  await using mortal = await connectedClient({ redis: proxy.url, lockWatchdogTimeout: LEASE_MS });
  await using waiter = await connectedClient({ redis: server.url, lockWatchdogTimeout: 60_000 });
  const hold = await line.lockOf(holder).acquire();
  const aborter = new AbortController();
  await line.join(mortal, 'dead', { signal: aborter.signal });
  const next = await line.join(waiter, 'next');
  const diedAt = performance.now();
  proxy.refuse();
  proxy.cut();
  await hold.release();
  const held = await redis.pttl(line.name);
  expect(held).toBeGreaterThan(0);
  expect(held).toBeLessThanOrEqual(LEASE_MS);
  await next.done;
  expect(performance.now() - diedAt).toBeLessThan(10_000); // its own place would be renewed after 20 s
  expect(line.turns).toEqual(['next']);
  aborter.abort();
});
