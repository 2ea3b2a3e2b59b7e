// What a client of ioredis says of itself, before it is connected to anything.
import { AbstractConnector, type RedisOptions } from 'ioredis';
import { expect, it } from 'vitest';
import type { Endpoint } from '../../../../src/redis/driver.js';
import { IoredisClient } from '../../../../src/redis/ioredis/client.js';
import { templateOf } from '../../../../src/redis/ioredis/source.js';

async function addressOf(options: RedisOptions): Promise<string> {
  const client = new IoredisClient(templateOf(options));
  const { address } = client;
  await client.close();
  return address;
}

it.each<[string, RedisOptions, string]>([
  ['a host and a port', { host: 'h', port: 7000 }, 'h:7000'],
  ['nothing', {}, 'localhost:6379'],
  ['a socket', { path: '/tmp/redis.sock' }, '/tmp/redis.sock'],
  [
    'Sentinels',
    {
      name: 'mymaster',
      sentinels: [{ host: 'one', port: 7001 }, { host: 'two' }],
      sentinelUsername: 'user',
      sentinelPassword: 'hunter2-secret',
    },
    'mymaster by one:7001',
  ],
  [
    'a Sentinel of no port',
    { name: 'mymaster', sentinels: [{ host: 'one' }] },
    'mymaster by one:26379',
  ],
  ['a Sentinel of nothing', { name: 'mymaster', sentinels: [{}] }, 'mymaster by localhost:26379'],
])('the address of a client of %s is for people', async (_, options, address) => {
  expect(await addressOf(options)).toBe(address);
});

class Tunnel extends AbstractConnector {
  constructor(options: unknown) {
    super((options as RedisOptions).disconnectTimeout ?? 0);
  }

  override connect(): never {
    throw new Error('is not to connect');
  }
}

it.each<[string, RedisOptions, Endpoint | undefined]>([
  ['a host and a port', { host: 'h', port: 7000 }, { host: 'h', port: 7000 }],
  ['a socket', { path: '/tmp/redis.sock' }, { path: '/tmp/redis.sock' }],
  ['TLS', { host: 'h', tls: {} }, undefined],
  ['Sentinels', { name: 'mymaster', sentinels: [{}] }, undefined],
  ['a Connector of the user’s', { host: 'h', Connector: Tunnel }, undefined],
])(
  'a bare socket reaches the server of %s only where it is all it takes',
  async (_, options, endpoint) => {
    const client = new IoredisClient(templateOf(options));
    expect(client.endpoint).toEqual(endpoint);
    await client.close();
  },
);
