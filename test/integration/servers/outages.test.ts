// The events of an outage: its begin, its cause and its end; and none where there is no outage.
import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { eventsOf, newClient, nextEvent } from '../../support/clients.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

let server: RedisServer;
let admin: Redis;

beforeEach(async () => {
  server = await startRedis();
  admin = new Redis(server.url);
});

afterEach(async () => {
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

it('one recovered event follows the error event of an outage', async () => {
  await using client = newClient({ redis: server.url });
  const [errors, recoveries] = [eventsOf(client, 'error'), eventsOf(client, 'recovered')];
  const lock = client.getLock(uniqueName());
  await lock.withLock(() => 1);
  const error = nextEvent(client, 'error');
  await server.kill();
  await error;
  const recovered = nextEvent(client, 'recovered');
  await server.start();
  const address = `${server.host}:${String(server.port)}`;
  expect(await recovered).toMatchObject({ connection: 'commands', address });
  expect((await recovered).lastedMs).toBeGreaterThanOrEqual(0);
  await lock.withLock(() => 1);
  expect(recoveries).toHaveLength(1);
  expect(errors.every(({ error: { message } }) => message.includes(address))).toBe(true);
});

it('a connection that is lost and remade at once is not an outage', async () => {
  await using client = newClient({ redis: server.url });
  const [errors, recoveries] = [eventsOf(client, 'error'), eventsOf(client, 'recovered')];
  const lock = client.getLock(uniqueName());
  for (let times = 0; times < 3; times++) {
    await lock.withLock(() => 1);
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  }
  await lock.withLock(() => 1);
  expect([...errors, ...recoveries]).toEqual([]);
});

it('a connection name that may be set is set', async () => {
  const { host, port } = server;
  await using client = newClient({ redis: { host, port, connectionName: 'orders' } });
  await client.getLock(uniqueName()).withLock(() => 1);
  expect(await admin.call('CLIENT', 'LIST')).toContain(' name=orders ');
});
