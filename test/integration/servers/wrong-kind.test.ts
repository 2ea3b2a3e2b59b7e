// A server that is given as what it is not: the first call says so, and what would be right.
import { Cluster } from 'ioredis';
import { createCluster } from 'redis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(() => server[Symbol.asyncDispose]());

/** Also by its first `error` event. */
async function isTold(redis: object, words: string | RegExp): Promise<void> {
  await using client = newClient({ redis, commandTimeout: 5_000 });
  const told = nextEvent(client, 'error');
  const error = await rejectionOf(client.getLock(uniqueName()).tryLock());
  expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
  for (const { message } of [error as Error, (await told).error]) expect(message).toMatch(words);
}

it.each<[string, (at: { host: string; port: number }) => object]>([
  ['ioredis', (at) => new Cluster([at], { lazyConnect: true })],
  ['node-redis', (at) => createCluster({ rootNodes: [{ socket: at }] })],
])('a single server as a cluster of %s', async (_, redis) => {
  const { host, port } = server;
  const words = 'cluster support disabled: give this server as a single one, not as a cluster';
  await isTold(redis({ host, port }), words);
});

it.each<[string, (at: { host: string; port: number }) => object]>([
  ['ioredis', (at) => ({ name: 'main', sentinels: [at] })],
  ['node-redis', (at) => ({ name: 'main', sentinelRootNodes: [at] })],
])('a server as a Sentinel for %s', async (_, redis) => {
  const { host, port } = server;
  // Redis before 7 quotes the command by backticks.
  const words = `what listens at ${host}:${port} is no Sentinel \\(ERR unknown command ['\`]sentinel`;
  await isTold(redis({ host, port }), new RegExp(words));
});
