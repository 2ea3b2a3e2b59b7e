// Holds that the Lua scripts hand digits to commands, and no numbers: Redis 7.2.0 to 7.2.4 and Valkey 7.2.5 write a number that ends in
// eight zeros as "1e+8" there. (test/integration/servers/round-numbers.test.ts shows what became of that.)
import { expect, it } from 'vitest';
import { scripts, type Script } from '../../../src/redis/scripts.generated.js';
import { numericArguments } from '../../support/lua.js';

it.each(Object.values<Script>(scripts))(
  'lua/$name hands no number to a command, but its digits',
  ({ source }) => {
    expect(numericArguments(source)).toEqual([]);
  },
);

const LEASE = 'local lease = ARGV[1]\nlocal leaseMs = tonumber(ARGV[1])\n';

it.each([
  [`redis.call('PEXPIRE', KEYS[1], leaseMs)`, 'leaseMs'],
  [`redis.pcall('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]))`, `redis.call('PTTL', KEYS[1])`],
  [`redis.call('PEXPIRE', KEYS[1], isNew and lease or leaseMs)`, 'isNew and lease or leaseMs'],
  [`redis.call('SET', KEYS[1], 100000000)`, '100000000'],
  [`redis.call('SET', KEYS[1], 'v', 'PX', 2 * lease)`, '2 * lease'],
  [`redis.call('SET', KEYS[1], unheardOf)`, 'unheardOf'],
  [`local words = { 'a', leaseMs }\nredis.call('HSET', KEYS[1], unpack(words))`, 'unpack(words)'],
  [
    `local words = {}\nwords[#words + 1] = leaseMs\nredis.call('DEL', unpack(words))`,
    'unpack(words)',
  ],
  [
    `local function keep(key, ms)\n  redis.call('PEXPIRE', key, ms)\nend\nkeep(KEYS[1], leaseMs)`,
    'ms',
  ],
  [
    `local function ms()\n  return 1, leaseMs\nend\nlocal a, b = ms()\nredis.call('SET', 'k', b)`,
    'b',
  ],
  [
    `local function keep(key, ms)\n  redis.call('PEXPIRE', key, ms)\nend\npcall(keep, KEYS[1], leaseMs)`,
    'ms',
  ],
])('a number is found: %s', (script, argument) => {
  expect(numericArguments(LEASE + script).map((found) => found.replace(/^.*?: /, ''))).toEqual([
    argument,
  ]);
});

it.each([
  `redis.call('PEXPIRE', KEYS[1], lease)`,
  `redis.call('PEXPIRE', KEYS[1], string.format('%.0f', leaseMs))`,
  `redis.call('PEXPIRE', KEYS[1], isNew and lease or string.format('%.0f', leaseMs))`,
  `redis.call('HSET', KEYS[1], 'a', 1)`,
  `local function whole(n)\n  return string.format('%.0f', n)\nend\nredis.call('SET', 'k', whole(leaseMs))`,
])('no number is found: %s', (script) => {
  expect(numericArguments(LEASE + script)).toEqual([]);
});
