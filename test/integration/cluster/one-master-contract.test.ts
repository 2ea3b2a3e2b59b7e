// Locks that a plain client has at a cluster of one master keep the contract that all kinds of lock keep.
import { afterAll, beforeAll, describe } from 'vitest';
import { Holdfast, type HoldfastOptions, type Lock } from '../../../src/index.js';
import { lockContract } from '../../support/lock-contract.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';

const KINDS: readonly (readonly [string, (client: Holdfast, name: string) => Lock])[] = [
  ['Lock', (client, name) => client.getLock(name)],
  ['FairLock', (client, name) => client.getFairLock(name)],
  ['WriteLock', (client, name) => client.getReadWriteLock(name).writeLock()],
];

describe.skipIf(topologiesUnavailable)('at a cluster of one master', () => {
  let servers: Servers;

  beforeAll(async () => {
    servers = await startCluster({ masterCount: 1 });
  }, 60_000);

  afterAll(async () => {
    await servers[Symbol.asyncDispose]();
  });

  for (const [className, getLock] of KINDS)
    lockContract(`${className} of a plain client`, {
      className,
      newClient: (options: Partial<HoldfastOptions>) =>
        new Holdfast({ redis: servers.masters[0]!.url, ...options }),
      getLock,
    });
});
