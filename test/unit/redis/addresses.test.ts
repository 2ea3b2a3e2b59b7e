// Where a server is, as a text and back: the nodes of a cluster and Sentinels are told apart by it.
import { expect, it } from 'vitest';
import { addressIn, textOf } from '../../../src/redis/port.js';

it.each([
  { host: 'localhost', port: 6379 },
  { host: '::1', port: 7000 },
  { path: '/run/redis.sock' },
  { path: 'redis.sock' },
])('an address stays the same as a text: %o', (address) => {
  expect(addressIn(textOf(address))).toEqual(address);
});
