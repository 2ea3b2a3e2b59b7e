// A waiter learns that the server refuses its client now.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { settledWithin } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

expectOutages();

/** A waiter polls every 40 s. */
const LEASE_MS = 120_000;

let server: RedisServer;
let admin: Redis;

beforeEach(async () => {
  server = await startRedis();
  admin = new Redis(server.url);
  await admin.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all');
});

afterEach(async () => {
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

const KINDS: Record<string, (client: Holdfast, name: string) => Promise<unknown>> = {
  lock: (client, name) => client.getLock(name).acquire(),
  'fair lock': (client, name) => client.getFairLock(name).acquire(),
  semaphore: (client, name) => client.getSemaphore(name, { permits: 1 }).acquire(),
  'write lock': (client, name) => client.getReadWriteLock(name).writeLock().acquire(),
};

it.each(Object.entries(KINDS))(
  'a waiter for a %s fails when the password was changed',
  async (_, acquire) => {
    const { host, port } = server;
    const redis = { host, port, username: 'app', password: 'secret' };
    await using holder = newClient({ redis: server.url, lockWatchdogTimeout: LEASE_MS });
    await using client = newClient({
      redis,
      lockWatchdogTimeout: LEASE_MS,
      commandTimeout: 2_000, // this long it tries to leave the line when it is closed
    });
    const name = uniqueName();
    await acquire(holder, name);
    const waiting = nextEvent(client, 'waiting');
    const refused = [1, 2, 3].map(() => rejectionOf(acquire(client, name)));
    await waiting;
    await admin.call('ACL', 'SETUSER', 'app', 'resetpass', '>another');
    await admin.call('CLIENT', 'KILL', 'USER', 'app');
    for (const each of refused)
      expect(await settledWithin(each, 10_000)).toMatchObject({
        code: 'REDIS_UNAVAILABLE',
        lockName: name,
        message: expect.stringContaining('WRONGPASS') as string,
      });
    expect(client.status).toBe('refused');
  },
);
