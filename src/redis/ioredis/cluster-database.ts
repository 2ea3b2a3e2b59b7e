// That a cluster is given no numbered database. Valkey 9 may have several; but ioredis takes a node that refuses one for ready, and selects
// none at all where only a start-up node names it: two clients could be in different databases, and both hold a lock.

import type { Cluster } from 'ioredis';
import { OptionError } from '../../api/errors.js';
import { shown } from '../../api/shown.js';

export function checkDatabases(cluster: Cluster): void {
  check('the redisOptions of the cluster', cluster.options.redisOptions?.db);
  const { startupNodes } = cluster as unknown as { startupNodes: readonly unknown[] };
  for (const node of startupNodes)
    for (const db of databasesOf(node)) check('a start-up node of the cluster', db);
}

/** Of a node whose text was found to be one that ioredis reads. (A URL may name two: as its path, and behind its "?".) */
function databasesOf(node: unknown): unknown[] {
  if (typeof node === 'object' && node) return [(node as { db?: unknown }).db];
  if (typeof node !== 'string') return [];
  const { pathname, searchParams } = new URL(`redis://${node.replace(/^(rediss?:)?\/\//i, '')}`);
  return [/^\/(\d+)$/.exec(pathname)?.[1], ...searchParams.getAll('db')];
}

function check(what: string, db: unknown): void {
  if (db === undefined || db === null || Number(db) === 0) return;
  throw new OptionError(
    `option "redis": the db of ${what} is ${shown(db)}: it must be 0, or left out: the locks of a cluster are in its database 0`,
  );
}
