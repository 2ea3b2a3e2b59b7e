// What the refusals of a server are made into, for whoever has to do something about them.
import { expect, it } from 'vitest';
import type { ClusterNodes, RedisClient } from '../../../src/redis/driver.js';
import { failureKind, replyError } from '../../../src/redis/failure.js';
import { Refusals } from '../../../src/redis/refusals.js';

const ONE_SERVER = { address: 'redis.example:6379', cluster: undefined } as RedisClient;
const OF_A_CLUSTER = { address: 'cluster', cluster: {} as ClusterNodes } as RedisClient;

it.each([
  'MOVED 3999 10.0.0.2:6379',
  'ASK 3999 10.0.0.2:6379',
  // Inside a script: Redis 6.2, 7.0 and newer.
  'ERR Error running script (call to f_1a2b): @user_script:12: -MOVED 3999 10.0.0.2:6379',
  'MOVED 3999 10.0.0.2:6379 script: 1a2b1a2b1a2b1a2b1a2b1a2b1a2b1a2b1a2b1a2b, on @user_script:12.',
])('"%s" is a refusal for good to a client of one server, and tells what to do', (words) => {
  const error = new Refusals().explain(replyError(words), ONE_SERVER);
  expect(failureKind(error)).toBe('denied');
  expect(error.message).toMatch(
    /^redis\.example:6379 is one node of a cluster.*\((MOVED|ASK) 3999 10\.0\.0\.2:6379\).*new Cluster\(nodes\)/,
  );
});

it('to the client of a cluster, which may follow it soon, it is none', () => {
  const moved = replyError('MOVED 3999 10.0.0.2:6379');
  expect(new Refusals().explain(moved, OF_A_CLUSTER)).toBe(moved);
});

it('what is no redirection is left as it is', () => {
  const loading = replyError('LOADING Redis is loading the dataset in memory');
  expect(new Refusals().explain(loading, ONE_SERVER)).toBe(loading);
});
