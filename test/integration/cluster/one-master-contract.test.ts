// Locks that a plain client has at a cluster of one master keep the contract that all kinds of lock keep.
import { afterAll, beforeAll, describe } from 'vitest';
import { Holdfast } from '../../../src/index.js';
import { lockContracts } from '../../support/lock-contract.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';

describe.skipIf(topologiesUnavailable)('at a cluster of one master', () => {
  let servers: Servers;

  beforeAll(async () => {
    servers = await startCluster({ masterCount: 1 });
  }, 60_000);

  afterAll(async () => {
    await servers[Symbol.asyncDispose]();
  });

  lockContracts(
    (options) => new Holdfast({ redis: servers.masters[0]!.url, ...options }),
    ['reentrant lock', 'fair lock', 'write lock'],
    ' of a plain client',
  );
});
