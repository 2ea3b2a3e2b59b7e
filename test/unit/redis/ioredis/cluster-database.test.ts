// A cluster with a numbered database is refused: one client could be there, and another in database 0.
import { Cluster, type ClusterNode } from 'ioredis';
import { inspect } from 'node:util';
import { afterEach, expect, it } from 'vitest';
import { Holdfast, OptionError } from '../../../../src/index.js';
import { templateOf } from '../../../../src/redis/ioredis/source.js';

const SECRET = 'hunter2-secret';

const created: Cluster[] = [];

afterEach(() => {
  for (const cluster of created.splice(0)) cluster.disconnect();
});

function idleCluster(nodes: ClusterNode[], redisOptions: object): Cluster {
  const cluster = new Cluster(nodes, { redisOptions, lazyConnect: true });
  created.push(cluster);
  return cluster;
}

it.each([
  ['for all nodes', ['h'], 'the redisOptions of the cluster is 2', { db: 2, password: SECRET }],
  ['as a text', ['h'], "the redisOptions of the cluster is '2'", { db: '2' }],
  ['that is no number', ['h'], "the redisOptions of the cluster is 'x'", { db: 'x' }],
  ['by one of its nodes', [7_000, { port: 1, db: 3 }], 'a start-up node of the cluster is 3'],
  ['by the path of a URL', [`redis://:${SECRET}@h:1/4`], "a start-up node of the cluster is '4'"],
  ['behind the "?"', [`rediss://:${SECRET}@h?db=5`], "a start-up node of the cluster is '5'"],
  ['without a scheme', ['h?family=4&db=6'], "a start-up node of the cluster is '6'"],
  ['that two words name', ['redis://h/0?db=7'], "a start-up node of the cluster is '7'"],
])('a numbered database, %s, is refused', (_how, nodes, words, redisOptions: object = {}) => {
  const redis = idleCluster(nodes, redisOptions);
  let error: unknown;
  try {
    new Holdfast({ redis });
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(OptionError);
  expect(String(error)).toContain(
    `option "redis": the db of ${words}: it must be 0, or left out: the locks of a cluster are in its database 0`,
  );
  expect(inspect(error, { depth: Infinity, showHidden: true })).not.toContain(SECRET);
});

it('database 0 is what a cluster has, said or not', () => {
  const nodes = [7_000, '7000', 'h:7000', '//h', 'redis://h:7000/0?db=0', { host: 'h', db: 0 }];
  for (const redisOptions of [{}, { db: 0 }, { db: '0' }, { db: undefined }]) {
    const cluster = idleCluster(nodes, redisOptions);
    expect(templateOf(cluster)).toBe(cluster);
  }
});
