// A server that refuses new connections: the client learns why, and connects when that is over.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { gate } from '../../support/occupancy.js';
import type { Treatment } from '../../support/proxy-link.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

let server: RedisServer;

beforeEach(async () => {
  server = await startRedis();
});

afterEach(() => server[Symbol.asyncDispose]());

it('a server that is busy at the greeting is reported as busy', async () => {
  await using proxy = await startProxy(server.port);
  const greeted = gate();
  const instead = "return redis.error_reply('BUSY Redis is busy running a script.')";
  const refusal: Treatment = { kind: 'refuse', then: 'cut', instead, done: greeted.open };
  proxy.treatCommands((args) => (args.join(' ') === 'info server' ? refusal : undefined));
  await using late = newClient({ redis: proxy.url, lockWatchdogTimeout: 30_000 });
  await greeted.opened;
  const error = await rejectionOf(late.getLock(uniqueName()).acquire({ wait: 500 }));
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect(String(error)).toMatch(/refused for 500 ms \(last error: BUSY /);
  proxy.treatCommands();
  await late.getLock(uniqueName()).withLock({ wait: 10_000 }, () => undefined);
});

it('a server with too many clients is reported as such, once', async () => {
  const redis = new Redis(server.url);
  await redis.config('SET', 'maxclients', '1'); // the existing ones stay
  const late = newClient({ redis: server.url });
  const errors = eventsOf(late, 'error');
  await eventually(() => {
    expect(String(errors.at(-1)?.error)).toContain('max number of clients reached');
  });
  const error = await rejectionOf(late.getLock(uniqueName()).acquire({ wait: 500 }));
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  expect(String(error)).toMatch(/refused for 500 ms \(last error: ERR max number of clients/);
  await sleep(1_500); // some attempts
  expect(errors.length).toBeLessThanOrEqual(3);
  await redis.config('SET', 'maxclients', '100');
  await late.getLock(uniqueName()).withLock({ wait: 10_000 }, () => undefined);
  await late.close();
  redis.disconnect();
});
