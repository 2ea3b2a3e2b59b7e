// The servers of a round, and where a client behind proxies finds them.
import type { TcpProxy } from '../../support/tcp-proxy.js';
import type { Plan } from '../plan.js';
import type { Address } from '../worker/work-order.js';
import { startAsCluster } from './cluster.js';
import { startWithSentinel } from './sentinel.js';
import { StageServer } from './server.js';

export interface StageTopology extends AsyncDisposable {
  readonly servers: readonly StageServer[];
  /** What a client is told whose proxies these are, one for each server. */
  address(links: readonly TcpProxy[]): Address;
  /** A replica takes over from its master, in order; where there are replicas. */
  failOver?(target: number): Promise<void>;
}

export async function startTopology(plan: Plan): Promise<StageTopology> {
  switch (plan.topology) {
    case 'single':
      return independent(plan, 1, ([link]) => ({ topology: 'single', url: link!.url }));
    case 'masters':
      return independent(plan, plan.masters, (links) => ({
        topology: 'masters',
        urls: links.map(({ url }) => url),
      }));
    case 'sentinel':
      return startWithSentinel();
    case 'cluster':
      return startAsCluster();
  }
}

async function independent(
  { isDurable, clocksAheadMs = [] }: Plan,
  count: number,
  address: StageTopology['address'],
): Promise<StageTopology> {
  const canStep = count === 1 || clocksAheadMs.length > 0;
  const servers = await Promise.all(
    Array.from({ length: count }, (_, index) => StageServer.start({ index, isDurable, canStep })),
  );
  for (const [index, aheadMs] of clocksAheadMs.entries())
    await servers[index]?.clock?.step(aheadMs);
  return {
    servers,
    address,
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    },
  };
}
