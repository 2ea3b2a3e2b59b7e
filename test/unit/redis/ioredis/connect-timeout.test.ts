// How long an attempt to connect may take: as long as the user says, but never without an end.
import { Cluster, Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { clientLike } from '../../../../src/redis/ioredis/clients.js';

const ANSWER_LIMIT_MS = 300;

it.each([
  [{}, 10_000],
  [{ connectTimeout: 5_000 }, 5_000],
  [{ connectTimeout: 0 }, 10_000],
])('of a client with %o an attempt to connect ends after %i ms', (options, limitMs) => {
  const single = new Redis({ path: '/nowhere/redis.sock', lazyConnect: true, ...options });
  const cluster = new Cluster([{ port: 1 }], { redisOptions: options, lazyConnect: true });
  const ofSingle = clientLike(single, ANSWER_LIMIT_MS) as Redis;
  const ofCluster = clientLike(cluster, ANSWER_LIMIT_MS) as Cluster;
  ofSingle.disconnect();
  ofCluster.disconnect();
  expect(ofSingle.options.connectTimeout).toBe(limitMs);
  expect(ofCluster.options.redisOptions?.connectTimeout).toBe(limitMs);
});
