// A master with a replica, watched by Sentinels.
import { Redis } from 'ioredis';
import { startSentinel } from '../../support/redis-topologies.js';
import { StageServer } from './server.js';
import { natMap } from './nat-map.js';
import type { StageTopology } from './topology.js';

export async function startWithSentinel(): Promise<StageTopology> {
  const setup = await startSentinel();
  const { name, sentinels } = setup;
  const servers = [setup.master, setup.replica].map(
    (redis, index) => new StageServer(index, redis),
  );
  const [sentinel] = sentinels.map(
    (endpoint) => new Redis({ ...endpoint, enableReadyCheck: false, lazyConnect: true }),
  );
  return {
    servers,
    address: (links) => ({ topology: 'sentinel', name, sentinels, natMap: natMap(servers, links) }),
    async failOver() {
      await sentinel!.call('SENTINEL', 'FAILOVER', name);
    },
    async [Symbol.asyncDispose]() {
      sentinel!.disconnect();
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
      await setup[Symbol.asyncDispose]();
    },
  };
}
