// What a user may not publish, listen to or leave is told, once; and everybody gets the lock all the same.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../src/index.js';
import { eventsOf, newClient } from '../support/clients.js';
import { eventually } from '../support/eventually.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { uniqueName } from '../support/unique-name.js';

const lockWatchdogTimeout = 1_500;

let server: RedisServer;
let admin: Redis;

beforeAll(async () => {
  server = await startRedis();
  admin = new Redis(server.url);
  await admin.ping();
});

afterAll(async () => {
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

/** A client whose user may do everything but what these rules take away. */
async function restricted(...rules: string[]): Promise<Holdfast> {
  await admin.call(
    'ACL',
    'SETUSER',
    'app',
    'reset',
    'on',
    '>secret',
    '~*',
    '&*',
    '+@all',
    ...rules,
  );
  const url = new URL(server.url);
  [url.username, url.password] = ['app', 'secret'];
  const client = newClient({ redis: url.href, lockWatchdogTimeout });
  await eventually(() => client.getLock('connected').isLocked());
  return client;
}

describe('a user who may not publish', () => {
  it.each([
    { kind: 'getLock', what: 'no PUBLISH at all', rules: ['-publish'] },
    { kind: 'getLock', what: 'no unlock channels', rules: ['resetchannels', '&holdfast_grants:*'] },
    { kind: 'getFairLock', what: 'no PUBLISH at all', rules: ['-publish'] },
  ] as const)('releases all the same, and is told once ($kind, $what)', async ({ kind, rules }) => {
    await using client = await restricted(...rules);
    const errors = eventsOf(client, 'error');
    const lock = client[kind](uniqueName());
    for (let i = 0; i < 3; i++) await lock.withLock(() => undefined);
    await client.getLock(uniqueName()).withLock(() => undefined);
    expect(await admin.exists(lock.name)).toBe(0);
    expect(errors).toHaveLength(1);
    const { message } = errors[0]!.error;
    expect(message).toContain(`redisson_lock__channel:{${lock.name}}`);
    expect(message).toContain('permit PUBLISH (in a cluster SPUBLISH) on redisson_lock__channel:*');
  });

  it('forces out all the same, and is told', async () => {
    await using client = await restricted('-publish');
    const errors = eventsOf(client, 'error');
    const lock = client.getLock(uniqueName());
    await using other = newClient({ redis: server.url });
    const hold = await other.getLock(lock.name).acquire();
    expect(await lock.forceUnlock()).toBe(true);
    expect(errors.map(({ error }) => error.message)).toEqual([
      expect.stringContaining(`redisson_lock__channel:{${lock.name}}`),
    ]);
    await hold.release().catch(() => undefined);
    await admin.del(`holdfast_forced:{${lock.name}}`);
  });

  it('hands a fair lock over all the same, and is told on which channel', async () => {
    await using client = await restricted('resetchannels', '&redisson_lock__channel:*');
    await using other = newClient({ redis: server.url, lockWatchdogTimeout });
    const errors = eventsOf(client, 'error');
    const name = uniqueName();
    const hold = await client.getFairLock(name).acquire();
    const next = other.getFairLock(name).acquire();
    await eventually(async () => {
      expect(await other.getFairLock(name).getQueueLength()).toBe(1);
    });
    await hold.release();
    await (await next).release(); // found by the renewal of its place
    expect(errors.map(({ error }) => error.message)).toEqual([
      expect.stringMatching(
        /on channel holdfast_grants:\{.*permit PUBLISH .* on holdfast_grants:\*/,
      ),
    ]);
  });
});
