// Locks in a numbered database: they are in that one, or nowhere.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Holdfast, type HoldfastOptions } from '../../../src/index.js';
import { newClient, rejectionOf } from '../../support/clients.js';
import { documentedPermissions } from '../../support/users.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const PREFIX = 'app-under-test:';
const RULES = documentedPermissions('server', PREFIX).filter((rule) => !rule.startsWith('>'));

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

/** A client in database 1 whose user has the README's permissions; without errors on the console. */
async function clientOf(
  username: string,
  options: Partial<HoldfastOptions> = {},
): Promise<Holdfast> {
  await admin.call('ACL', 'SETUSER', username, 'reset', '>secret', ...RULES);
  const { host, port } = server;
  const redis = { host, port, username, password: 'secret', db: 1 };
  return new Holdfast({ redis, keyPrefix: PREFIX, ...options }).on('error', () => undefined);
}

it('a user who may not select the database is refused, and not connected to another one', async () => {
  await using holder = newClient({ redis: `${server.url}/1`, keyPrefix: PREFIX });
  await using client = await clientOf('never-selects');
  const name = uniqueName();
  const hold = await holder.getLock(name).acquire();
  for (const wait of [undefined, 0, 300]) {
    expect(await rejectionOf(client.getLock(name).acquire({ wait }))).toMatchObject({
      code: 'REDIS_UNAVAILABLE',
      message: expect.stringMatching(/refuses .*NOPERM.*select/) as string,
    });
  }
  expect(client.status).toBe('refused');
  expect(await admin.exists(PREFIX + name)).toBe(0);
  await hold.release();
});

it('a user who gets the permission later can work then', async () => {
  await using client = await clientOf('selects-later');
  const lock = client.getLock(uniqueName());
  await expect.poll(async () => String(await rejectionOf(lock.tryLock()))).toMatch(/database 1:/);
  await admin.call('ACL', 'SETUSER', 'selects-later', '+select');
  await expect.poll(() => client.status, { timeout: 10_000 }).toBe('ready');
  const hold = await lock.acquire();
  expect(await admin.exists(PREFIX + lock.name)).toBe(0);
  await admin.select(1);
  expect(await admin.exists(PREFIX + lock.name)).toBe(1);
  await admin.select(0);
  await hold.release();
});

it('a database that the server does not have is refused', async () => {
  await using client = newClient({ redis: `${server.url}/99` });
  client.on('error', () => undefined);
  expect(await rejectionOf(client.getLock(uniqueName()).acquire())).toMatchObject({
    code: 'REDIS_UNAVAILABLE',
    message: expect.stringMatching(/database 99.*out of range/) as string,
  });
});

it('an instance that has selected another database than its options name is refused', async () => {
  const instance = new Redis(server.url);
  await instance.select(1);
  expect(() => newClient({ redis: instance })).toThrow(
    'is an instance that has selected database 1, and its options name 0',
  );
  await instance.select(0);
  await using client = newClient({ redis: instance });
  await client.getLock(uniqueName()).withLock(() => undefined);
  instance.disconnect();
});

it('commands that replicas acknowledge are refused as well, even if only their connection is new', async () => {
  await admin.call('ACL', 'SETUSER', 'loses-it', 'reset', '>secret', ...RULES, '+select', '+wait');
  const { host, port } = server;
  const redis = { host, port, username: 'loses-it', password: 'secret', db: 1 };
  await using client = new Holdfast({ redis, keyPrefix: PREFIX, replicas: 1, commandTimeout: 500 });
  client.on('error', () => undefined);
  const lock = client.getLock(uniqueName());
  // (There is no replica: an acquisition is undone.)
  await rejectionOf(lock.tryLock());
  await admin.call('ACL', 'SETUSER', 'loses-it', '-select');
  const list = (await admin.client('LIST')) as string;
  const connections = list.split('\n').filter((line) => line.includes('user=loses-it'));
  expect(connections).toHaveLength(2); // the connection for all other commands was made first
  await admin.client('KILL', 'ID', Number(/\bid=(\d+)/.exec(connections[1]!)![1]));
  const writes: string[] = [];
  const monitor = await admin.monitor();
  monitor.on('monitor', (_at, args: string[], _from, db: string) => {
    if (db === '0' && args.some((arg) => arg.includes(lock.name))) writes.push(args.join(' '));
  });
  await rejectionOf(lock.tryLock(1_000));
  monitor.disconnect();
  expect(writes).toEqual([]);
});
