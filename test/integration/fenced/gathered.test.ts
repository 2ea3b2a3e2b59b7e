// Fenced locks that are acquired and released many at a time go together in few script calls, with plain ones among them.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Hold } from '../../../src/index.js';
import { connectedClient } from '../../support/clients.js';
import { counterOf } from '../../support/fenced-locks.js';
import { loadScripts } from '../../support/lock-commands.js';
import { countCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const LONG = { lockWatchdogTimeout: 30_000, commandTimeout: 10_000 };

let server: RedisServer;
let admin: Redis;

beforeAll(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  admin = new Redis(server.url);
  await admin.ping();
}, 60_000);

afterAll(async () => {
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

it('a fenced lock among them does not cause the gathered calls of others to be sent early', async () => {
  await using client = await connectedClient({ ...LONG, redis: server.url });
  const name = uniqueName();
  let holds: Hold[] = [];
  const counts = await countCommands(server.url, async () => {
    const calls = Array.from({ length: 40 }, (_, index) =>
      index % 2 === 0
        ? client.getLock(`${name}:${index}`).acquire({ lease: index % 3 ? 20_000 : undefined })
        : client.getFencedLock(`${name}:${index}`).acquire(),
    );
    holds = await Promise.all(calls);
  });
  // The first was sent alone, since nothing was under way.
  expect(counts).toMatchObject({ evalsha: 2, hset: 40, set: 20 });
  expect(holds.map(({ token }) => typeof token)).toEqual(
    holds.map((_, index) => (index % 2 === 0 ? 'undefined' : 'bigint')),
  );
  await Promise.all(holds.map((hold) => hold.release()));
});

it('a lock among them that cannot be granted reports why, and uses up no token', async () => {
  await using client = await connectedClient({ ...LONG, redis: server.url });
  await using other = await connectedClient({ ...LONG, redis: server.url });
  const names = Array.from({ length: 30 }, (_, index) => uniqueName(String(index)));
  await admin.set(counterOf(names[10]!), 'text');
  await admin.hset(names[11]!, { mode: 'read', more: 1 });
  await admin.rpush(counterOf(names[12]!), 'a');
  await using held = await other.getFencedLock(names[13]!).acquire();
  const outcomes = await Promise.allSettled(
    names.map((name) => client.getFencedLock(name).tryAcquire()),
  );
  for (const index of [10, 11, 12])
    expect(outcomes[index]).toMatchObject({ reason: { code: 'KEY_CONFLICT' } });
  expect(outcomes[13]).toEqual({ status: 'fulfilled', value: undefined });
  expect(await admin.get(counterOf(names[10]!))).toBe('text');
  expect(await admin.exists(counterOf(names[11]!))).toBe(0);
  expect(await admin.get(counterOf(names[13]!))).toBe(String(held.token));
  const holds = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' && outcome.value ? [outcome.value] : [],
  );
  expect(holds).toHaveLength(26);
  await Promise.all(holds.map((hold) => hold.release()));
  await admin.del(names[11]!);
});
