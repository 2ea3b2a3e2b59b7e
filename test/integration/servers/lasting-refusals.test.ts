// A server that is up and keeps refusing while callers wait for ever: that is reported once, and they acquire the lock when it is over.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { connectedClient, eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { loadScripts } from '../../support/lock-commands.js';
import { startMasters } from '../../support/redis-topologies.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

/** The latest time of the report; renewals and polls are later. */
const SOON_MS = 15_000;

interface Refusing {
  readonly words: string;
  readonly begin: (redis: Redis) => Promise<unknown>;
  readonly end: (redis: Redis) => Promise<unknown>;
}

const NO_REPLICAS: Refusing = {
  words: 'NOREPLICAS Not enough good replicas to write',
  begin: (redis) => redis.config('SET', 'min-replicas-to-write', '1'),
  end: (redis) => redis.config('SET', 'min-replicas-to-write', '0'),
};

const REFUSING: readonly Refusing[] = [
  NO_REPLICAS,
  {
    words: 'OOM command not allowed',
    begin: async (redis) => {
      await redis.config('SET', 'maxmemory-policy', 'noeviction');
      await redis.config('SET', 'maxmemory', '1');
    },
    end: (redis) => redis.config('SET', 'maxmemory', '0'),
  },
  {
    words: 'is busy running a script',
    begin: async (redis) => {
      await redis.config('SET', 'lua-time-limit', '50');
      redis.eval('while true do end', 0).catch(() => undefined);
      await sleep(200); // by then it answers so
    },
    end: async (redis) => {
      const killer = redis.duplicate({ enableReadyCheck: false });
      await killer.call('SCRIPT', 'KILL');
      killer.disconnect();
    },
  },
];

describe.each(REFUSING)('while a server says "$words"', ({ words, begin, end }) => {
  let server: RedisServer;
  let redis: Redis;
  let client: Holdfast;

  beforeEach(async () => {
    server = await startRedis();
    await loadScripts(server.url);
    redis = new Redis(server.url);
    client = await connectedClient({ redis: server.url, lockWatchdogTimeout: 60_000 });
  });

  afterEach(async () => {
    await client.close();
    redis.disconnect();
    await server[Symbol.asyncDispose]();
  });

  it('waiting calls cause one report, and acquire the lock when it is over', async () => {
    const errors = eventsOf(client, 'error');
    await begin(redis);
    const name = uniqueName();
    const all: Promise<Hold[]> = Promise.all([
      client.getLock(name).acquire(),
      client.getLock(uniqueName()).acquire(),
      client.getFairLock(uniqueName()).acquire(),
    ]);
    all.catch(() => undefined); // of a test that fails
    await expect.poll(() => errors.length, { timeout: SOON_MS }).toBe(1);
    const [{ error }] = errors as [{ error: Error }];
    expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(error.message).toContain(`${server.host}:${String(server.port)}`);
    expect(error.message).toContain(words);
    const refused = await rejectionOf(client.getLock(name).acquire({ wait: 300 }));
    expect(refused).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    expect(String(refused)).toMatch(/refused for 300 ms/);
    expect(String(refused)).toMatch(/\(last error: [A-Z]+ /);
    expect(String(refused)).toContain(words);
    await sleep(2_000); // some more tries
    await end(redis);
    for (const hold of await all) await hold.release();
    expect(errors).toHaveLength(1);
  });
});

it('the masters of a Redlock that refuse are reported, each by its own client', async () => {
  await using servers = await startMasters(3);
  const admins = servers.map(({ url }) => new Redis(url));
  const clients = servers.map(({ url }) => newClient({ redis: url, lockWatchdogTimeout: 60_000 }));
  const told = clients.map((client) => eventsOf(client, 'error'));
  await Promise.all(admins.slice(1).map((redis) => NO_REPLICAS.begin(redis)));
  const name = uniqueName();
  const [first] = clients as [Holdfast];
  const members = clients.map((client) => client.getLock(name));
  const waiting = first.getRedLock(...members, { restartGuard: false }).acquire();
  waiting.catch(() => undefined); // of a test that fails
  await expect
    .poll(() => told.map((errors) => errors.length), { timeout: SOON_MS })
    .toEqual([0, 1, 1]);
  expect(told[1]![0]!.error.message).toContain(NO_REPLICAS.words);
  await Promise.all(admins.map((redis) => NO_REPLICAS.end(redis)));
  await (await waiting).release();
  await Promise.all(clients.map((client) => client.close()));
  for (const redis of admins) redis.disconnect();
});
