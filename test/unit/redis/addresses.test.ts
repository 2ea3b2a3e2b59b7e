// The address of a server as text and back: it identifies the nodes of a cluster and Sentinels.
import { expect, it } from 'vitest';
import { addressIn, textOf } from '../../../src/redis/port.js';

it.each([
  { host: 'localhost', port: 6379 },
  { host: '::1', port: 7000 },
  { path: '/run/redis.sock' },
  { path: 'redis.sock' },
])('an address survives the conversion to text and back: %o', (address) => {
  expect(addressIn(textOf(address))).toEqual(address);
});
